// Describes incidents in the language of the page: a sentence for each code, filled with the details.
import { bytes, day, number, span } from './formats.js'
import { en } from './i18n/en.js'
import type { Key, Translation } from './i18n/index.js'
import type { IncidentJson, OverviewJson } from './wire/types_gen.js'

type Write = (detail: string, tr: Translation) => string

const text: Write = (v) => v
const count: Write = (v, tr) => number(Number(v), tr)
const size: Write = (v, tr) => bytes(v, tr)
const milliseconds: Write = (v, tr) => tr.t('milliseconds', { n: number(Number(v), tr) })
const seconds: Write = (v, tr) => tr.t('seconds', { n: number(Math.abs(Number(v)), tr) })
const length: Write = (v, tr) => span(1000 * Number(v), tr)
const gauge: Write = (v, tr) => `gauge_${v}` in en ? tr.t(`gauge_${v}` as Key) : v

/**
 * By the code of an incident, its details in the order of docs/guide/console.md: the name of each in the sentence,
 * and the function that formats its value.
 */
export const detailsOf: Readonly<Record<string, readonly (readonly [string, Write])[]>> = {
  node_silent: [], node_gone: [], node_apart: [], node_slow: [], node_draining: [], not_ready: [],
  partitions_unowned: [['n', count]],
  database_down: [['database', text], ['n', count]],
  database_behind: [['why', text]],
  store_stopped: [['why', text]],
  disk_full: [['free', size]],
  disk_low: [['free', size], ['least', size]],
  disk_filling: [['free', size], ['left', length]],
  disk_slow: [['mean', milliseconds]],
  database_slow: [['mean', milliseconds]],
  store_damaged: [['n', count], ['first', text]],
  greedy_user: [['who', text], ['n', count], ['code', text]],
  overloaded: [['n', count]],
  memory_full: [['part', gauge], ['used', size], ['most', size]],
  connections_full: [['used', count], ['most', count]],
  inboxes_behind: [['late', seconds]],
  inboxes_late: [['late', seconds]],
  logins_wrong: [['n', count], ['all', count], ['most', count], ['address', text]],
  refusals_many: [['n', count], ['code', text]],
  backup_none: [],
  backup_old: [['day', day]],
  backup_unsound: [['day', day], ['why', text]],
  audit_lost: [['n', count]],
  certificate_ends: [['day', day]],
  versions_differ: [['version', text], ['others', text]],
  clock_skew: [['apart', seconds], ['other', text]],
}

/**
 * Returns the sentence about an incident. If the cluster has several nodes, the sentence names the node. An unknown
 * code (of a newer server) or missing details give the text of the server, or else the code.
 */
export function textOf({ code = '', node = '', text: said = '', details = [] }: IncidentJson, nodes: number, tr: Translation): string {
  const known = detailsOf[code]
  if (!known || details.length < known.length) return said || code
  const sentence = tr.t(`incident_${code}` as Key, { node, ...Object.fromEntries(known.map(([name, write], i) => [name, write(details[i] ?? '', tr)])) })
  return node === '' || nodes < 2 || sentence.includes(node) ? sentence : tr.t('atNode', { node, text: sentence })
}

const dayMs = 86_400_000
const pastMost = 200 // the most ended incidents that are kept

/**
 * Merges the newly ended incidents of an overview into the known ones. A report replaces a known one with the same
 * code, node and beginning: an incident that came back within a minute of its end is reported again with its first
 * beginning. Incidents that ended more than a day before the overview go, and those beyond pastMost. If nothing
 * changes, the list stays the same object.
 */
export function pastOf(known: readonly IncidentJson[], { past = [], timeMs }: OverviewJson): readonly IncidentJson[] {
  const begin = Number(timeMs ?? 0) - dayMs
  if (past.length === 0 && known.every((i) => Number(i.endedMs ?? 0) > begin)) return known
  const same = (a: IncidentJson, b: IncidentJson): boolean => a.code === b.code && a.node === b.node && a.sinceMs === b.sinceMs
  const all = [...past, ...known.filter((k) => !past.some((p) => same(k, p)))].filter((i) => Number(i.endedMs ?? 0) > begin)
  return all.sort((a, b) => Number(b.endedMs ?? 0) - Number(a.endedMs ?? 0)).slice(0, pastMost)
}
