import { lines } from './charts.js'
import type { Estimate, Report, Task } from './data.js'
import { h, table } from './dom.js'
import { aspect, bytes, type Key, type Texts } from './texts.js'

/** Returns the name of a task, with its size if it has one. */
function named(x: Texts, t: Task): string {
  return t.size > 0 ? x.t(`t_${t.name}_n` as Key, x.number(t.size)) : x.t(`t_${t.name}` as Key)
}

/**
 * Adds a card with the tasks of a run, a row for each. Columns without any value are left out. The scenarios
 * connections and storm also get a chart. A run without tasks gets no card.
 */
export function tasks(cards: HTMLElement, x: Texts, r: Report): void {
  const all = r.tasks ?? []
  if (all.length === 0) return
  const ms = (v: number) => v > 0 ? `${x.number(v)} ms` : ''
  const some = (v: number) => v > 0 ? x.number(v) : ''
  const columns: [string, (t: Task) => string][] = [
    [x.t('onTheirWay'), (t) => some(t.window)], [x.t('count'), (t) => some(t.count)], [x.t('time'), (t) => t.seconds > 0 ? `${x.number(t.seconds)} ${x.t('seconds')}` : ''], [x.t('inASecond'), (t) => some(t.per_s)],
    [x.t('again'), (t) => some(t.again)], [x.t('cpuEach'), (t) => t.server_cpu_us > 0 ? `${x.number(t.server_cpu_us)} µs` : ''], [x.t('p50'), (t) => ms(t.latency_ms.p50)], [x.t('p99'), (t) => ms(t.latency_ms.p99)], [x.t('max'), (t) => ms(t.latency_ms.max)],
    [x.t('userBytes'), (t) => t.user_bytes > 0 ? bytes(x, t.user_bytes) : ''], [x.t('kernelBytes'), (t) => t.kernel_bytes > 0 ? bytes(x, t.kernel_bytes) : ''], [x.t('idleCores'), (t) => some(t.idle_cpu)], [x.t('beats'), (t) => some(t.heartbeats)],
    [x.t('pauses'), (t) => ms(t.pauses_ms)], [x.t('ping50'), (t) => ms(t.answer_ms)], [x.t('ping99'), (t) => ms(t.answer_p99_ms)],
  ]
  const used = columns.filter(([, of]) => all.some((t) => of(t) !== ''))
  const place = h('div')
  cards.append(h('section', { class: 'card wide' }, h('h2', {}, x.t('tasks')), h('p', { class: 'quiet' }, x.t(`tasks_${r.scenario}` as Key)), place,
    h('div', { class: 'lines' }, table(['', ...used.map(([name]) => name)], all.map((t) => [named(x, t), ...used.map(([, of]) => of(t))])))))
  const line = (name: Key, tint: string, of: (t: Task) => number) => ({ name: x.t(name), color: tint, values: all.map(of) })
  if (r.scenario === 'connections' && all.length > 1) {
    lines(place, x, { x: all.map((t) => t.size), xName: x.t('connections'), xAxis: (v) => x.number(v), unit: 'B', lines: [line('userBytes', 'chart-1', (t) => t.user_bytes), line('kernelBytes', 'chart-3', (t) => t.kernel_bytes)] })
  } else if (r.scenario === 'storm' && all.length > 1) {
    lines(place, x, { x: all.map((t) => t.size), xName: x.t('storm'), xAxis: (v) => x.number(v), unit: 'ms', lines: [line('p50', 'chart-1', (t) => t.latency_ms.p50), line('max', 'chart-4', (t) => t.latency_ms.max)] })
  }
}

/**
 * Returns a card with the rate that sockets and a log reach on this machine without a chat server, and the share of it
 * that the run reached. Without such a measurement there is no card.
 */
export function floor(x: Texts, r: Report): HTMLElement[] {
  const f = r.floor
  if (!f || !(f.accepted_per_cpu_s > 0)) return []
  return [h('section', { class: 'card wide' }, h('h2', {}, x.t('floor')), h('p', { class: 'quiet' }, x.t('floorHint')),
    table(['', x.t('cpuEach'), x.t('inASecond'), x.t('p50'), x.t('p99')], [f.echo, f.fan_out, f.log].map((t) => [named(x, t), `${x.number(t.server_cpu_us)} µs`, x.number(t.per_s), `${x.number(t.latency_ms.p50)} ms`, `${x.number(t.latency_ms.p99)} ms`])),
    table([], [[x.t('floorRate'), x.number(f.accepted_per_cpu_s)], [x.t('floorOurs'), x.number(r.server.accepted_per_cpu_s)], [x.t('floorShare'), `${x.number(100 * f.share, 0)} %`]]))]
}

/**
 * Returns a card that compares the second quarter of a soak run with the last one: memory, latency of acks, cores in
 * use. Other runs have none.
 */
export function drift(x: Texts, r: Report): HTMLElement[] {
  const d = r.drift
  if (!d) return []
  return [h('section', { class: 'card wide' }, h('h2', {}, x.t('drift')), h('p', { class: 'quiet' }, x.t('driftHint')), table(['', x.t('secondQuarter'), x.t('lastQuarter')], [
    [x.t('memory'), ...d.rss_bytes.map((v) => bytes(x, v))], [aspect(x, 'ack', 'p99'), ...d.ack_p99_ms.map((v) => `${x.number(v)} ms`)], [x.t('serverCores'), ...d.cpu.map((v) => x.number(v))],
  ]))]
}

/**
 * Adds the estimate of a plan to the page: what it needs, the formula of each figure, the plan, and the costs. tile
 * makes a tile of the first row.
 */
export function estimate(page: HTMLElement, x: Texts, e: Estimate, tile: (name: string, value: string, unit: string, below: string) => HTMLElement): void {
  const p = e.plan, r = p.routine, c = e.costs
  page.append(h('div', { class: 'tiles' },
    tile(x.t('connections'), x.number(e.connections), '', x.t('e_online', x.number(100 * p.online))), tile(x.t('cores'), x.number(e.cores), '', x.t('e_load', x.number(100 * p.load))),
    tile(x.t('nodes'), x.number(e.nodes), '', x.t('e_nodeCores', x.number(p.node_cores))), tile(x.t('memory'), bytes(x, e.memory_bytes), '', x.t('e_all')), tile(x.t('e_disk'), bytes(x, e.disk_bytes), '', x.t('e_days', x.number(p.days))),
    tile(x.t('e_databases'), x.number(e.databases), '', e.databases > 0 ? x.t('e_nodeCores', x.number(p.node_cores)) : x.t('e_embedded')), tile(x.t('e_network'), x.number(e.out_bits_per_s / 1e6), 'Mbit/s', x.t('e_toClients'))),
  h('div', { class: 'cards' },
    h('section', { class: 'card wide' }, h('h2', {}, x.t('e_stages')), h('p', { class: 'quiet' }, x.t('e_stagesHint')),
      h('div', { class: 'lines' }, table(['', x.t('inASecond'), x.t('cpuEach'), x.t('cores')], e.stages.map((s) => [[x.t(`e_${s.name}` as Key), h('br'), h('code', {}, s.formula)], x.number(s.per_s), `${x.number(s.cpu_us)} µs`, x.number(s.cores, 3)]))),
      h('h2', {}, x.t('e_formulas')), h('ul', {}, e.formulas.map((f) => h('li', {}, h('code', {}, f))))),
    (e.against ?? []).length > 0 && h('section', { class: 'card wide' }, h('h2', {}, x.t('e_against')), h('p', { class: 'quiet' }, x.t('e_againstHint')), table([x.t('clients'), x.t('e_speed'), x.t('inASecond'), x.t('e_measured'), x.t('e_estimated'), ''], e.against!.map((m) => [
      x.number(m.clients), x.number(m.speed), x.number(m.sends_per_s), x.number(m.cores), x.number(m.estimated_cores), `${m.off > 0 ? '+' : ''}${x.number(100 * m.off, 0)} %`]))),
    h('section', { class: 'card' }, h('h2', {}, x.t('e_plan')), table([], [
      [x.t('e_users'), x.number(p.users)], [x.t('e_direct'), x.number(r.direct_per_hour)], [x.t('e_group'), x.number(r.group_per_hour)], [x.t('e_members'), x.number(r.group_members)], [x.t('e_loginsEach'), x.number(r.logins_per_hour)],
      [x.t('e_opens'), x.number(r.opens_per_hour)], [x.t('e_hours'), x.number(p.busy_hours)], [x.t('e_size'), `${x.number(p.size)} B`],
    ])),
    h('section', { class: 'card' }, h('h2', {}, x.t('e_costs')), h('p', { class: 'quiet' }, `${c.machine.cores} × ${c.machine.cpu} · ${x.t('commit')} ${c.machine.commit.slice(0, 8)}`),
      table([], Object.entries(c).filter(([, v]) => typeof v === 'number').map(([name, v]) => [h('code', {}, name), x.number(v as number)])))))
}
