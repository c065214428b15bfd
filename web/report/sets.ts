import { dots, lines } from './charts.js'
import type { Comparison, History, Report, Run } from './data.js'
import { h, table } from './dom.js'
import { commitOf, findings, head, when } from './run.js'
import type { Key, Texts } from './texts.js'

/** Reads a figure from a report, by the name of the figure in bench/targets.go. */
const figures: Record<string, (r: Report) => number> = {
  p50: (r) => r.latency_ms.end_to_end.p50, p90: (r) => r.latency_ms.end_to_end.p90, p99: (r) => r.latency_ms.end_to_end.p99, p999: (r) => r.latency_ms.end_to_end.p999,
  max: (r) => r.latency_ms.end_to_end.max, mean: (r) => r.latency_ms.end_to_end.mean, ack_mean: (r) => r.latency_ms.ack.mean,
  ack_p50: (r) => r.latency_ms.ack.p50, ack_p90: (r) => r.latency_ms.ack.p90, ack_p99: (r) => r.latency_ms.ack.p99, ack_p999: (r) => r.latency_ms.ack.p999,
  fdatasync_p99: (r) => r.disk.fdatasync_ms.p99, ...Object.fromEntries(['lost', 'duplicate', 'ghost', 'refused', 'reordered', 'altered', 'gap', 'leaked'].map((name) => [name, (r: Report) => findings(r, name)])),
  rejected: (r) => r.rejected, unknown: (r) => r.unknown, lagged: (r) => r.audit.lagged, accepted_per_s: (r) => r.accepted_per_s, delivered_per_s: (r) => r.delivered_per_s,
  accepted_per_cpu_s: (r) => r.server.accepted_per_cpu_s, delivered_per_cpu_s: (r) => r.server.delivered_per_cpu_s, total_accepted_per_cpu_s: (r) => r.total.accepted_per_cpu_s,
  total_delivered_per_cpu_s: (r) => r.total.delivered_per_cpu_s, bytes_per_connection: (r) => r.server.bytes_per_connection, disk_bytes_per_message: (r) => r.server.disk_bytes_per_message,
  messages_per_commit: (r) => r.server.messages_per_commit,
}

/** Draws two sets of runs of one scenario, old and new: each figure with its change, and the conditions that differ. */
export function drawComparison(page: HTMLElement, x: Texts, choices: HTMLElement, c: Comparison): void {
  const side = (name: Key, runs: Run[]) => `${x.t(name)}${x.language === 'zh' ? '：' : ': '}${x.t('runs', runs.length)}${runs[0] && commitOf(runs[0].report) ? ` (${[...new Set(runs.map((r) => commitOf(r.report)))].join(', ')})` : ''}`
  head(page, x, choices, `petrel bench ${c.scenario}`, 'comparison', `${side('old', c.old)} · ${side('new', c.new)}`)
  const cards = h('div', { class: 'cards' })
  page.append(cards)
  const verdict = (v: string) => h('span', { class: v === 'better' ? 'good' : v === 'worse' ? 'bad' : undefined }, x.t(v as Key))
  const few = c.figures.some((f) => f.verdict === 'too few runs')
  const spread = (s: { median: number; low: number; high: number }) => [x.number(s.median), h('br'), h('small', { class: 'quiet' }, `${x.number(s.low)} – ${x.number(s.high)}`)]
  cards.append(h('section', { class: 'card wide' }, h('p', { class: 'quiet' }, x.t('chanceHint'), few && ` ${x.t('fewHint')}`),
    table([x.t('figure'), x.t('old'), x.t('new'), x.t('change'), x.t('chance'), x.t('verdict'), ''], c.figures.filter((f) => f.old.median !== 0 || f.new.median !== 0).map((f) => {
      const of = figures[f.name]
      return [h('span', {}, f.name, f.unit !== '' && h('small', { class: 'quiet' }, ` ${f.unit}`)), spread(f.old), spread(f.new), `${f.percent > 0 ? '+' : ''}${x.number(f.percent, 1)} %`, x.number(f.p, 3), verdict(f.verdict),
        of ? dots([{ values: c.old.map((r) => of(r.report)), color: 'old' }, { values: c.new.map((r) => of(r.report)), color: 'new' }]) : '']
    })),
    h('p', { class: 'quiet' }, h('span', { class: 'key-old' }, x.t('old')), ' ', h('span', { class: 'key-new' }, x.t('new')), ` · ${x.t('each')}`)))
  if ((c.conditions ?? []).length > 0) cards.append(h('section', { class: 'card wide' }, h('h2', {}, x.t('conditions')), h('p', { class: 'quiet' }, x.t('conditionsHint')),
    table(['', x.t('old'), x.t('new')], c.conditions!.map((d) => [d.name, (d.old ?? []).join(', '), (d.new ?? []).join(', ')]), true)))
}

/**
 * Draws runs over time: for each series a table, the newest run first, and a chart of one figure if it has several
 * runs.
 */
export function drawHistory(page: HTMLElement, x: Texts, choices: HTMLElement, history: History): void {
  const all = history.series ?? []
  head(page, x, choices, 'petrel bench', 'history', x.t('runs', all.reduce((n, s) => n + s.runs.length, 0)))
  const shown = ['accepted_per_s', 'accepted_per_cpu_s', 'delivered_per_cpu_s', 'p50', 'p99', 'bytes_per_connection', 'disk_bytes_per_message']
  const params = (r: Report): Record<string, unknown> => r.params
  const names = all.flatMap((s) => Object.keys(params(s.runs[0]!.report)))
  const differ = [...new Set(names)].filter((name) => new Set(all.map((s) => JSON.stringify(params(s.runs[0]!.report)[name]))).size > 1)
  for (const s of all) {
    const special = differ.map((name) => `${name} ${JSON.stringify(params(s.runs[0]!.report)[name])}`).join(', ')
    const span = Date.parse(s.runs.at(-1)!.report.at) - Date.parse(s.runs[0]!.report.at)
    const date = new Intl.DateTimeFormat(x.language === 'zh' ? 'zh-CN' : 'en-GB', span < 2 * 86_400_000 ? { hour: '2-digit', minute: '2-digit' } : { day: 'numeric', month: 'short' })
    const columns = shown.filter((name) => s.runs.some((r) => figures[name]!(r.report) > 0))
    const cards = h('div', { class: 'cards' })
    page.append(cards)
    const card = h('section', { class: 'card wide' }, h('h2', {}, s.scenario), h('p', { class: 'quiet' }, [s.machine, special].filter(Boolean).join(' · ')))
    cards.append(card)
    const chosen = ['accepted_per_cpu_s', 'bytes_per_connection'].find((name) => columns.includes(name))
    if (s.runs.length > 1 && chosen) {
      const place = h('div')
      card.append(place)
      lines(place, x, { x: s.runs.map((r) => Date.parse(r.report.at) / 1000), time: true, xName: x.t('when'), xAxis: (v) => date.format(new Date(v * 1000)), unit: '', lines: [{ name: chosen, color: 'chart-1', values: s.runs.map((r) => figures[chosen]!(r.report)) }] })
    }
    const sum = (r: Report) => Object.values(r.audit.findings).reduce((a, b) => a + b, 0)
    card.append(table([x.t('when'), x.t('commit'), x.t('verdict'), ...columns], [...s.runs].reverse().map((r) => [h('span', { class: 'when' }, when(x, r.report.at)), commitOf(r.report),
      h('span', { class: sum(r.report) > 0 ? 'bad' : 'good' }, x.t(sum(r.report) > 0 ? 'red' : 'clean')), ...columns.map((name) => x.number(figures[name]!(r.report)))])))
  }
}
