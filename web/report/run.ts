import { beside, checks, kills, reliability } from './beside.js'
import { color, heat, lines } from './charts.js'
import type { Estimate, Knee, Percentiles, Problem, Reliability, Report, Story } from './data.js'
import { h, table } from './dom.js'
import { drift, estimate, floor, tasks } from './tasks.js'
import { bytes, type Key, type Texts } from './texts.js'

/**
 * Adds the header of the page. With problems (an empty list too) it has the verdict, and each problem stands below it.
 */
export function head(page: HTMLElement, x: Texts, choices: HTMLElement, title: string, kind: Key, line: string, problems?: readonly Problem[]): void {
  const said = problems?.map((p) => typeof p === 'string' ? p : x.t('checkFailed', `${x.t(`c_${p.name}` as Key)} ${x.number(p.want)} · ${x.t('found')} ${x.number(p.got)}`))
  const verdict = said && h('span', { class: said.length > 0 ? 'pill pill-red' : 'pill', title: said.length > 0 ? said.join('\n') : x.t('cleanHint') }, x.t(said.length > 0 ? 'red' : 'clean'))
  page.append(h('header', {}, h('div', { class: 'title' }, h('h1', {}, title, h('small', {}, x.t(kind)), verdict), h('p', {}, line)), choices))
  for (const one of said ?? []) page.append(h('p', { class: 'note' }, one))
}

export function when(x: Texts, at: string): string {
  return new Intl.DateTimeFormat(x.language === 'zh' ? 'zh-CN' : 'en-GB', { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(at))
}

export function commitOf(r: Pick<Report, 'machine'>): string {
  return r.machine.commit.slice(0, 8) + (r.machine.commit.endsWith('+') ? '+' : '')
}

function about(x: Texts, r: Pick<Report, 'at' | 'machine'>): string {
  return [when(x, r.at), commitOf(r) && `${x.t('commit')} ${commitOf(r)}`, `${r.machine.cores} × ${r.machine.cpu}`].filter(Boolean).join(' · ')
}

export function drawRun(page: HTMLElement, x: Texts, choices: HTMLElement, r: Report, problems: readonly Problem[]): void {
  const shape = r.params['shape'] ? ` --shape ${String(r.params['shape'])}` : ''
  head(page, x, choices, `petrel bench ${r.scenario}${shape}`, 'report', about(x, r), problems)
  drawBody(page, x, r)
}

export function drawStory(page: HTMLElement, x: Texts, choices: HTMLElement, s: Story, problems: readonly Problem[]): void {
  head(page, x, choices, 'petrel bench quick', 'report', about(x, s.runs[0]!), problems)
  for (const [i, name] of (['story1', 'story2'] as const).entries()) {
    page.append(h('h2', { class: 'chapter' }, x.t(name)))
    drawBody(page, x, s.runs[i]!)
  }
  page.append(h('h2', { class: 'chapter' }, x.t('story3')), h('div', { class: 'cards' }, reliability(x, s.reconnect, 'reconnectHint')))
}

export function drawReliability(page: HTMLElement, x: Texts, choices: HTMLElement, c: Reliability, problems: readonly Problem[]): void {
  head(page, x, choices, 'petrel bench openim-reliability', 'report', about(x, c), problems)
  page.append(h('div', { class: 'cards' }, reliability(x, c, 'reliabilityHint'), described(x, [...hardware(x, c.machine), [x.t('time'), `${x.number(c.seconds)} ${x.t('seconds')}`], ...given(c.params)], c.command)))
}

function drawBody(page: HTMLElement, x: Texts, r: Report): void {
  if (r.generator.cpu_s > 0 && r.server.cpu_s > 0 && r.generator.cpu_s > (r.total.cpu_s || r.server.cpu_s) / 2) page.append(h('p', { class: 'note' }, x.t('half')))
  const scale = Number(r.params['scale'] ?? 1)
  if (scale !== 1) page.append(h('p', { class: 'note note-plain' }, x.t('scaled', x.number(100 * scale))))
  page.append(tiles(x, r))
  const cards = h('div', { class: 'cards' })
  page.append(cards)
  cards.append(...beside(x, r), ...kills(x, r), ...checks(x, r.checks ?? []))
  tasks(cards, x, r)
  cards.append(...drift(x, r), ...floor(x, r))
  drawCharts(cards, x, r)
  page.append(h('div', { class: 'cards' }, r.scenario !== 'limit' && audit(x, r), machine(x, r)))
}

function tile(name: string, value: string, unit: string, below: string): HTMLElement {
  return h('div', { class: 'tile' }, h('span', { class: 'name' }, name), h('b', {}, value, unit !== '' && h('small', {}, ` ${unit}`)), h('span', {}, below))
}

function tiles(x: Texts, r: Report): HTMLElement {
  const all: HTMLElement[] = []
  if (r.accepted_per_s > 0) all.push(tile(x.t('accepted'), x.number(r.accepted_per_s), x.t('perSecond'), x.t('acceptedHint')))
  if (r.delivered_per_s > 0) all.push(tile(x.t('delivered'), x.number(r.delivered_per_s), x.t('perSecond'), `${x.number(r.server.delivered_per_cpu_s)} ${x.t('perCpu')}`))
  if (r.server.accepted_per_cpu_s > 0) all.push(tile(x.t('accepted'), x.number(r.server.accepted_per_cpu_s), '', x.t('perCpu')))
  const e = r.latency_ms.end_to_end.p50 > 0 ? r.latency_ms.end_to_end : r.latency_ms.ack
  if (e.p50 > 0) all.push(tile(r.latency_ms.end_to_end.p50 > 0 ? x.t('endToEnd') : x.t('ack'), x.number(e.p99), 'ms', `${x.t('p99')} · ${x.t('p50')} ${x.number(e.p50)} ms`))
  if (r.server.bytes_per_connection > 0) all.push(tile(x.t('memory'), x.number(r.server.bytes_per_connection), 'B', x.t('perConnection')))
  if (r.server.rss_bytes > 0) all.push(tile(x.t('memory'), bytes(x, r.server.rss_bytes), '', x.t('server')))
  if (r.server.disk_bytes_per_message > 0) all.push(tile(x.t('disk'), x.number(r.server.disk_bytes_per_message), 'B', r.server.messages_per_commit > 0 ? `${x.number(r.server.messages_per_commit)} ${x.t('messagesPerCommit')}` : ''))
  return h('div', { class: 'tiles' }, all)
}

function chart(into: HTMLElement, x: Texts, title: Key, unit: string, hint: Key | '', wide: boolean, draw: (into: HTMLElement) => void): void {
  const place = h('div')
  into.append(h('figure', { class: wide ? 'card wide' : 'card' }, h('h2', {}, x.t(title), unit !== '' && h('small', {}, unit)), hint !== '' && h('p', { class: 'quiet' }, x.t(hint)), place))
  draw(place)
}

function drawCharts(cards: HTMLElement, x: Texts, r: Report): void {
  const all = r.series ?? []
  const at = all.map((s) => s.at_s)
  const some = (of: (s: typeof all[number]) => number) => all.some((s) => of(s) > 0)
  const seen = (of: (s: typeof all[number]) => number) => (s: typeof all[number]) => s.servers.rss_bytes > 0 ? of(s) : null // 0 bytes of memory: the servers were not measured in that second
  const one = (name: Key, tint: string, of: (s: typeof all[number]) => number | null, dash = false) => ({ name: x.t(name), color: tint, values: all.map(of), dash })
  if (all.length > 1 && some((s) => s.accepted_per_s)) {
    chart(cards, x, 'rates', '', 'ratesHint', true, (into) => lines(into, x, { x: at, xName: x.t('moment'), unit: x.t('perSecond'), hooks: phases(r), lines: [one('offered', 'chart-3', (s) => s.offered_per_s, true), one('accepted', 'chart-2', (s) => s.accepted_per_s), one('delivered', 'chart-1', (s) => s.delivered_per_s)] }))
    if (some((s) => s.end_to_end_ms.p50)) chart(cards, x, 'latency', 'ms', 'latencyHint', false, (into) => lines(into, x, { x: at, xName: x.t('moment'), unit: 'ms', log: true, lines: [one('p50', 'chart-1', (s) => s.end_to_end_ms.p50), one('p99', 'chart-3', (s) => s.end_to_end_ms.p99), one('max', 'chart-4', (s) => s.end_to_end_ms.max)] }))
  }
  drawCurve(cards, x, r)
  if (all.length > 1 && some((s) => s.rungs?.length ?? 0)) chart(cards, x, 'heat', 'ms', 'heatHint', true, (into) => heat(into, x, at, all.map((s) => s.rungs ?? []), r.ladder_ms, 'ms'))
  if (all.length > 1 && some((s) => s.servers.cpu)) {
    chart(cards, x, 'cpu', x.t('cores'), 'cpuHint', !some((s) => s.servers.commit_p99_ms), (into) => lines(into, x, { x: at, xName: x.t('moment'), unit: '', lines: [one('server', 'chart-1', seen((s) => s.servers.cpu)), ...(some((s) => s.servers.postgres_cpu) ? [one('database', 'chart-2', seen((s) => s.servers.postgres_cpu))] : []), one('generator', 'chart-3', seen((s) => s.servers.generator_cpu), true)] }))
    if (some((s) => s.servers.commit_p99_ms)) chart(cards, x, 'stops', 'ms', 'stopsHint', false, (into) => lines(into, x, { x: at, xName: x.t('moment'), unit: 'ms', lines: [one('commitP50', 'chart-1', (s) => s.servers.commit_p50_ms), one('commitP99', 'chart-3', (s) => s.servers.commit_p99_ms), one('pauses', 'chart-4', (s) => s.servers.pauses_ms)] }))
    if (some((s) => s.servers.disk_bytes)) chart(cards, x, 'store', 'MB', 'storeHint', false, (into) => lines(into, x, { x: at, xName: x.t('moment'), unit: 'MB', height: 150, lines: [{ name: x.t('store'), color: 'chart-2', values: all.map(seen((s) => s.servers.disk_bytes / 2 ** 20)) }] }))
    if (some((s) => s.servers.rss_bytes)) chart(cards, x, 'rss', 'MB', '', !some((s) => s.servers.disk_bytes), (into) => lines(into, x, { x: at, xName: x.t('moment'), unit: 'MB', height: 150, lines: [{ name: x.t('memory'), color: 'chart-1', values: all.map(seen((s) => s.servers.rss_bytes / 2 ** 20)) }] }))
  }
}

/**
 * Returns hooks of a chart that draw a red line where the server was killed, and a dashed one where the phase of the
 * run changed (bench/timeseries.go).
 */
function phases(r: Report): { draw: ((u: import('uplot')) => void)[] } {
  const all = r.series ?? []
  const turns = all.flatMap((s, i) => i > 0 && s.phase !== all[i - 1]!.phase ? [all[i - 1]!.at_s] : [])
  return { draw: [(u) => {
    u.ctx.save()
    const mark = (at: number) => {
      const px = u.valToPos(at, 'x', true)
      u.ctx.beginPath()
      u.ctx.moveTo(px, u.bbox.top)
      u.ctx.lineTo(px, u.bbox.top + u.bbox.height)
      u.ctx.stroke()
    }
    u.ctx.strokeStyle = color('danger')
    for (const k of r.kills?.each ?? []) mark(k.at_s)
    u.ctx.strokeStyle = color('text-quiet')
    u.ctx.setLineDash([3, 4])
    turns.forEach(mark)
    u.ctx.restore()
  }] }
}

function drawCurve(cards: HTMLElement, x: Texts, r: Report): void {
  const curves = [['endToEnd', 'chart-1', r.latency_ms.end_to_end_curve], ['ack', 'chart-2', r.latency_ms.ack_curve]] as const
  const known = curves.filter(([, , c]) => (c?.length ?? 0) > 1)
  if (known.length === 0) return
  const place = (share: number) => -Math.log10(1 - share)
  const xs = [...new Set(known.flatMap(([, , c]) => c!.map((p) => place(p.share))))].sort((a, b) => a - b)
  const share = (v: number) => `${x.number(100 * (1 - 10 ** -v), Math.max(0, Math.ceil(v) - 1))} %`
  chart(cards, x, 'curve', 'ms', 'curveHint', false, (into) => lines(into, x, {
    x: xs, xName: x.t('share'), unit: 'ms', log: true, xAxis: share, xTicks: (xs.at(-1)! < 5 ? [0, 1, 2, 3, 4] : [0, 1, 2, 4, 6]).filter((v) => v <= xs.at(-1)!),
    lines: known.map(([name, tint, c]) => { const by = new Map(c!.map((p) => [place(p.share), p.ms])); return { name: x.t(name), color: tint, values: xs.map((v) => by.get(v) ?? null) } }),
  }))
}

function audit(x: Texts, r: Report): HTMLElement {
  const a = r.audit
  const bad = (n: number) => h('span', { class: n > 0 ? 'bad' : 'good' }, x.number(n))
  const always = ['lost', 'duplicate', 'ghost', 'reordered']
  const rows: [Key, HTMLElement | string][] = [
    ...Object.entries(a.findings).filter(([name, n]) => n > 0 || always.includes(name)).map(([name, n]): [Key, HTMLElement] => [name as Key, bad(n)]), ['messages', x.number(a.messages)], ['deliveries', x.number(a.deliveries)],
    ['readBack', x.number(a.history_read)], ['rejected', x.number(r.rejected)], ['unknown', x.number(r.unknown)], ['lagged', x.number(a.lagged)],
  ]
  const percentile = (name: Key, p: Percentiles): string[] => [x.t(name), ...[p.p50, p.p90, p.p99, p.p999, p.max].map((v) => `${x.number(v)} ms`)]
  const listed = (title: Key, all: readonly string[]) => all.length > 0 && [h('h2', {}, x.t(title)), h('ul', {}, all.slice(0, 20).map((s) => h('li', {}, s)))]
  return h('section', { class: 'card' }, h('h2', {}, x.t('audit')), h('p', { class: 'quiet' }, x.t('auditHint')), table([], rows.map(([k, v]) => [x.t(k), v])),
    r.latency_ms.ack.p50 > 0 && table(['', x.t('p50'), x.t('p90'), x.t('p99'), x.t('p999'), x.t('max')], [...(r.latency_ms.end_to_end.p50 > 0 ? [percentile('endToEnd', r.latency_ms.end_to_end)] : []), percentile('ack', r.latency_ms.ack)]),
    listed('errors', Object.entries(a.errors ?? {}).map(([code, n]) => `${code}: ${x.number(n)}`)), listed('gone', a.connections_lost ?? []), listed('first', (a.witnesses ?? []).map((w) => `${w.class}: ${w.text}${w.where ? ` (${w.where})` : ''}`)))
}

function machine(x: Texts, r: Report): HTMLElement {
  return described(x, [
    ...hardware(x, r.machine),
    [x.t('colocated'), `${x.t(r.machine.co_located ? 'here' : 'elsewhere')}, CPU ${x.number(r.generator.cpu_s)} s`], [x.t('server'), `CPU ${x.number(r.server.cpu_s)} s`],
    ...(r.disk.fdatasync_ms.p50 > 0 ? [[x.t('sync'), `${x.number(r.disk.fdatasync_ms.p50)} ms, ${x.t('p99')} ${x.number(r.disk.fdatasync_ms.p99)} ms`] as [string, string]] : []),
    ...(r.postgres ? [[x.t('database'), `${r.postgres.version}, CPU ${x.number(r.postgres.cpu_s)} s`] as [string, string]] : []),
    ...(r.raised_limits ?? []).map((l): [string, string] => [l.limit, `${x.t('from')} ${x.number(l.from)} ${x.t('to')} ${l.to < 0 ? x.t('none') : x.number(l.to)}`]),
    ...given(r.params),
  ], r.command)
}

function hardware(x: Texts, m: Report['machine']): [string, string][] {
  return [[x.t('processor'), `${m.cores} × ${m.cpu}`], [x.t('ram'), bytes(x, m.mem_bytes)], [x.t('kernel'), m.kernel], [x.t('go'), `${m.go}, GOMAXPROCS ${m.gomaxprocs}`], [x.t('commit'), m.commit], [x.t('files'), x.number(m.open_files)]]
}

function given(params: Record<string, unknown>): [string, string][] {
  return Object.entries(params).filter(([k, v]) => v !== '' && !(k === 'scale' && v === 1) && v !== 0 && v !== false && v !== null).map(([k, v]) => [k, typeof v === 'object' ? JSON.stringify(v) : String(v)])
}

function described(x: Texts, rows: [string, string][], command: string): HTMLElement {
  return h('section', { class: 'card' }, h('h2', {}, x.t('machine')), table([], rows, true), command !== '' && [h('h2', {}, x.t('rerun')), h('pre', {}, command)])
}

/** Returns the number of findings of a class, 0 if the report does not name it. */
export function findings(r: Report, name: string): number {
  return r.audit.findings[name] ?? 0
}

export function drawCluster(page: HTMLElement, x: Texts, choices: HTMLElement, runs: Report[], problems: readonly Problem[]): void {
  const first = runs[0]!
  head(page, x, choices, 'petrel bench cluster', 'report', about(x, first), problems)
  const share = (of: (r: Report) => number, r: Report) => of(first) > 0 ? `${x.number(100 * of(r) / of(first), 0)} %` : '–'
  const own = (r: Report) => r.server.accepted_per_cpu_s, both = (r: Report) => r.total.accepted_per_cpu_s
  const cards = h('div', { class: 'cards' })
  page.append(cards)
  cards.append(h('section', { class: 'card wide' }, h('h2', {}, x.t('charge')), h('p', { class: 'quiet' }, x.t('clusterHint')),
    table([x.t('nodes'), x.t('messages'), x.t('time'), x.t('accepted') + x.t('perSecond'), x.t('perCpu'), x.t('share'), x.t('withDatabase'), x.t('share'), x.t('messagesPerCommit'), x.t('lost'), x.t('duplicate')], runs.map((r) => [
      String(r.params['nodes']), x.number(r.accepted), `${x.number(r.seconds)} ${x.t('seconds')}`, x.number(r.accepted_per_s), x.number(own(r)), share(own, r), x.number(both(r)), share(both, r), x.number(r.server.messages_per_commit),
      ...['lost', 'duplicate'].map((name) => h('span', { class: findings(r, name) > 0 ? 'bad' : 'good' }, x.number(findings(r, name)))),
    ]))))
  for (const r of runs) {
    const inner = h('div')
    const n = Number(r.params['nodes'])
    page.append(h('details', { ontoggle: () => { if (inner.childElementCount === 0) drawBody(inner, x, r) } }, h('summary', {}, n === 1 ? x.t('oneRun1') : x.t('oneRun', n)), inner)) // drawn when it is opened, because charts need a width
  }
}

export function drawEstimate(page: HTMLElement, x: Texts, choices: HTMLElement, e: Estimate): void {
  head(page, x, choices, 'petrel bench estimate', 'e_kind', x.t('e_hint'))
  estimate(page, x, e, tile)
}

export function drawKnee(page: HTMLElement, x: Texts, choices: HTMLElement, k: Knee): void {
  const runs = k.runs, first = runs[0]!
  head(page, x, choices, `petrel bench ${first.scenario} --find-max`, 'report', about(x, first))
  const tiles = [k.rate > 0 && tile(x.t('held'), x.number(k.rate), x.t('perSecond'), x.t('rateHint')), k.too_high > 0 && tile(x.t('tooHigh'), x.number(k.too_high), x.t('perSecond'), x.t('rateHint'))]
  const cards = h('div', { class: 'cards' })
  page.append(h('div', { class: 'tiles' }, tiles), cards)
  const rates = runs.map((r) => Number(r.params['rate']))
  if (runs.length > 1) {
    const line = (name: Key, tint: string, of: (r: Report) => number) => ({ name: x.t(name), color: tint, values: runs.map(of) })
    chart(cards, x, 'latency', 'ms', '', false, (into) => lines(into, x, { x: rates, xName: x.t('rate'), xAxis: (v) => x.number(v), unit: 'ms', log: true, lines: [line('p50', 'chart-1', (r) => r.latency_ms.end_to_end.p50), line('p99', 'chart-3', (r) => r.latency_ms.end_to_end.p99)] }))
    chart(cards, x, 'cpu', x.t('cores'), '', false, (into) => lines(into, x, { x: rates, xName: x.t('rate'), xAxis: (v) => x.number(v), unit: '', lines: [line('server', 'chart-1', (r) => r.server.cpu_s / r.seconds), { ...line('generator', 'chart-3', (r) => r.generator.cpu_s / r.seconds), dash: true }] }))
  }
  const e = (r: Report) => r.latency_ms.end_to_end
  cards.append(h('section', { class: 'card wide' }, h('h2', {}, x.t('knee')), h('p', { class: 'quiet' }, x.t('kneeHint', k.targets)),
    table([x.t('rate'), x.t('accepted') + x.t('perSecond'), x.t('perCpu'), x.t('p50'), x.t('p99'), x.t('p999'), x.t('verdict')], runs.map((r, i) => [
      x.number(rates[i]!), x.number(r.accepted_per_s), x.number(r.server.accepted_per_cpu_s), `${x.number(e(r).p50)} ms`, `${x.number(e(r).p99)} ms`, `${x.number(e(r).p999)} ms`,
      h('span', { class: k.missed[i] ? 'bad' : 'good', title: k.missed[i] ?? '' }, x.t(k.missed[i] ? 'tooHigh' : 'held')),
    ]))))
  for (const [i, r] of runs.entries()) {
    const inner = h('div')
    page.append(h('details', { ontoggle: () => { if (inner.childElementCount === 0) drawBody(inner, x, r) } }, h('summary', {}, `${x.number(rates[i]!)} ${x.t('rateHint')}`), inner))
  }
}
