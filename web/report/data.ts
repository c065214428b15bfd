// The data that `petrel bench` puts into the page. The types are those of the JSON that the Go packages bench and
// bench/compare write; each has only the fields that the page reads.

export interface Percentiles { p50: number; p90: number; p99: number; p999: number; max: number; mean: number }
export interface Point { share: number; ms: number }

export interface Second {
  at_s: number; phase: string; offered_per_s: number; accepted_per_s: number; delivered_per_s: number; unanswered: number; connections: number
  ack_ms: Percentiles; end_to_end_ms: Percentiles; rungs: number[]
  servers: { cpu: number; postgres_cpu: number; generator_cpu: number; rss_bytes: number; disk_bytes: number; pauses_ms: number; commit_p50_ms: number; commit_p99_ms: number }
}

export interface Compared { name: string; unit: string; theirs: number; theirs_per_core: number; theirs_per_cpu_s: number; ours: number; ours_per_core: number; ours_per_cpu_s: number }
export interface Beside { id: string; system: string; size: string; hardware: string; cores: number; busy_cores: number; source: string; habits: string[]; compared: Compared[] }
export interface Check { name: string; want: number; got: number; ok: boolean }

export interface Task {
  name: string; size: number; window: number; count: number; seconds: number; per_s: number; again: number; server_cpu_s: number; server_cpu_us: number; latency_ms: Percentiles
  user_bytes: number; kernel_bytes: number; pauses_ms: number; idle_cpu: number; heartbeats: number; answer_ms: number; answer_p99_ms: number
}
export interface Floor { echo: Task; fan_out: Task; log: Task; accepted_per_cpu_s: number; share: number }

export interface Report {
  kills?: { each: { at_s: number; back_ms: number; silent_ms: number; again: number }[]; silent_median_ms: number; silent_longest_ms: number; sent_again: number; asked_again: number; put_off: number }
  published?: Beside[]; checks?: Check[]; tasks?: Task[]; floor?: Floor; drift?: { rss_bytes: number[]; ack_p99_ms: number[]; cpu: number[] }
  scenario: string; at: string; command: string; params: Record<string, unknown>
  raised_limits: { limit: string; from: number; to: number }[] | null
  overloaded: string[] | null; seconds: number; offered: number; accepted: number; delivered: number; rejected: number; unknown: number; accepted_per_s: number; delivered_per_s: number
  audit: { findings: Record<string, number>; messages: number; deliveries: number; history_read: number; lagged: number; errors: Record<string, number>; connections_lost: string[] | null; witnesses: { class: string; text: string; where?: string }[] | null }
  latency_ms: { ack: Percentiles; end_to_end: Percentiles; ack_curve: Point[] | null; end_to_end_curve: Point[] | null }
  server: { cpu_s: number; user_s: number; rss_bytes: number; accepted_per_cpu_s: number; delivered_per_cpu_s: number; bytes_per_connection: number; disk_bytes_per_message: number; messages_per_commit: number }
  nodes?: { cpu_s: number; accepted: number; commits: number }[]
  postgres?: { version: string; cpu_s: number; commit_ms: { p50: number; p99: number }; moves: number }
  total: { cpu_s: number; accepted_per_cpu_s: number; delivered_per_cpu_s: number }
  generator: { cpu_s: number; user_s: number }
  disk: { fdatasync_ms: { p50: number; p99: number } }
  machine: { cpu: string; cores: number; gomaxprocs: number; mem_bytes: number; kernel: string; go: string; commit: string; open_files: number; co_located: boolean }
  ladder_ms: number[]; series: Second[] | null
}

export interface Run { file: string; report: Report }
export interface Summary { runs: number; median: number; low: number; high: number }
export interface Figure { name: string; unit: string; old: Summary; new: Summary; percent: number; p: number; verdict: string }
export interface Comparison { scenario: string; old: Run[]; new: Run[]; figures: Figure[]; conditions: { name: string; old: string[] | null; new: string[] | null }[] | null }
export interface History { series: { scenario: string; machine: string; runs: Run[] }[] | null }

export interface Knee { rate: number; too_high: number; targets: string; runs: Report[]; missed: string[] }

export interface Reliability {
  at: string; command: string; machine: Report['machine']; seconds: number; kills: number; tried: number; failed: number; strangers: number; refused: number; unknowable: number
  params: { connections: number; senders: number; [name: string]: unknown }; judged: { acked: number; deliveries: number; entries: number; findings: Record<string, number> }
}

export interface Story { runs: Report[]; reconnect: Reliability }

export interface Estimate {
  plan: { users: number; online: number; routine: { direct_per_hour: number; group_per_hour: number; group_members: number; logins_per_hour: number; opens_per_hour: number }; busy_hours: number; size: number; days: number; load: number; node_cores: number }
  costs: { machine: Report['machine']; [name: string]: unknown }
  stages: { name: string; per_s: number; cpu_us: number; cores: number; formula: string }[]
  connections: number; cores: number; nodes: number; memory_bytes: number; out_bits_per_s: number; disk_bytes: number; databases: number; formulas: string[]
  against?: { clients: number; speed: number; sends_per_s: number; cores: number; estimated_cores: number; off: number }[]
}

/** A reason why a run is red: a text of `petrel bench`, or a check that was not met. */
export type Problem = string | Check

/**
 * The content of the page; kind selects the function that draws it. problems has the reasons why a run is red; null or
 * empty: it is not red.
 */
export type Data =
  | { kind: 'run'; report: Report; problems: Problem[] | null }
  | { kind: 'cluster'; runs: Report[]; problems: Problem[] | null }
  | { kind: 'estimate'; estimate: Estimate }
  | { kind: 'knee'; knee: Knee }
  | { kind: 'story'; story: Story; problems: Problem[] | null }
  | { kind: 'reliability'; reliability: Reliability; problems: Problem[] | null }
  | { kind: 'comparison'; comparison: Comparison }
  | { kind: 'history'; history: History }
