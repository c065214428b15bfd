import type { Check, Reliability, Report } from './data.js'
import { h, table } from './dom.js'
import { aspect, type Key, type Texts } from './texts.js'

/**
 * Returns a card for each published test: its figures beside those of this run, and its habits that make the figures
 * better.
 */
export function beside(x: Texts, r: Report): HTMLElement[] {
  const rate = (v: number) => v > 0 ? x.number(v) : '–'
  const measure = (v: number, unit: string) => `${x.number(v)} ${unit === 'bytes' ? 'B' : unit}`
  return (r.published ?? []).map((p) => h('section', { class: 'card wide' }, h('h2', {}, x.t('published'), h('small', {}, p.system)), h('p', { class: 'quiet' }, x.t('publishedHint')),
    table([x.t('figure'), x.t('theirs'), x.t('perCore'), x.t('perCpuSecond'), x.t('ours'), x.t('perCore'), x.t('perCpuSecond')], p.compared.map((c) => [x.t(`f_${c.name}` as Key),
      ...(c.unit === '1/s' ? [rate(c.theirs) + x.t('perSecond'), rate(c.theirs_per_core), rate(c.theirs_per_cpu_s), rate(c.ours) + x.t('perSecond'), rate(c.ours_per_core), rate(c.ours_per_cpu_s)]
        : [measure(c.theirs, c.unit), '', '', measure(c.ours, c.unit), '', ''])])),
    table([], [
      [x.t('whatSent'), p.size], [x.t('theirMachine'), p.hardware], [x.t('theirCores'), `${x.number(p.cores)}${p.busy_cores > 0 ? ` (${x.t('inUse', x.number(p.busy_cores))})` : ''}`],
      [x.t('source'), h('a', { href: p.source, rel: 'noreferrer' }, p.source)],
    ], true),
    h('h2', {}, x.t('habits')), h('ul', {}, p.habits.map((name) => h('li', {}, x.t(`h_${name}` as Key)))), h('p', { class: 'quiet' }, x.t(r.params['receipts'] ? 'ourHabitsReceipts' : 'ourHabits'))))
}

/**
 * Returns a card with the kills of the server: when each was, how long no send was acked, and when all connections
 * were back. A run without kills has none.
 */
export function kills(x: Texts, r: Report): HTMLElement[] {
  const k = r.kills
  if (!k) return []
  const ms = (v: number) => `${x.number(v)} ms`
  return [h('section', { class: 'card wide' }, h('h2', {}, x.t('killed')), h('p', { class: 'quiet' }, x.t('killedHint')), k.put_off > 0 && h('p', { class: 'quiet' }, x.t('killedPutOff')),
    table([], [[x.t('kills'), x.number(k.each.length)], [aspect(x, 'noAckFor', 'median'), ms(k.silent_median_ms)], [aspect(x, 'noAckFor', 'longest'), ms(k.silent_longest_ms)], [x.t('sentAgain'), x.number(k.sent_again)],
      ...(k.asked_again > 0 ? [[x.t('askedAgain'), x.number(k.asked_again)]] : []),
      ...(k.put_off > 0 ? [[x.t('putOff'), x.number(k.put_off)]] : [])]),
    h('div', { class: 'lines' }, table([x.t('moment'), x.t('noAckFor'), x.t('allBack'), x.t('again')], k.each.map((one) => [`${x.number(one.at_s)} ${x.t('seconds')}`, ms(one.silent_ms), ms(one.back_ms), x.number(one.again)]))))]
}

/** Returns a card with the checks of a counted run (bench/checks.go), or none without checks. */
export function checks(x: Texts, all: readonly Check[]): HTMLElement[] {
  if (all.length === 0) return []
  return [h('section', { class: 'card wide' }, h('h2', {}, x.t('checks')), h('p', { class: 'quiet' }, x.t('checksHint')),
    table(['', x.t('wanted'), x.t('found'), x.t('verdict')], all.map((c) => [x.t(`c_${c.name}` as Key), x.number(c.want), x.number(c.got), h('span', { class: c.ok ? 'good' : 'bad' }, x.t(c.ok ? 'met' : 'failed'))])))]
}

/**
 * Returns a card with the counts of a reliability run: sends, acks, deliveries, and the findings of the checker. hint
 * is the text above them.
 */
export function reliability(x: Texts, c: Reliability, hint: Key): HTMLElement {
  const bad = (n: number) => h('span', { class: n > 0 ? 'bad' : 'good' }, x.number(n))
  return h('section', { class: 'card wide' }, h('p', { class: 'quiet' }, x.t(hint)), table([], [
    [x.t('clients'), x.number(c.params.connections)], [x.t('kills'), x.number(c.kills)], [x.t('tried'), x.number(c.tried)], [x.t('f_acked'), x.number(c.judged.acked)], [x.t('noAck'), bad(c.failed)],
    [x.t('strangers'), `${x.number(c.refused + c.unknowable)} / ${x.number(c.strangers)}`], [x.t('deliveries'), x.number(c.judged.deliveries)], [x.t('readBack'), x.number(c.judged.entries)],
    ...Object.entries(c.judged.findings).filter(([name, n]) => n > 0 || ['lost', 'duplicate', 'ghost', 'reordered'].includes(name)).map(([name, n]) => [x.t(name as Key), bad(n)]),
  ]))
}
