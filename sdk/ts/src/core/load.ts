import { addConv } from './conversation.js'
import { move, receipt } from './cursor.js'
import { refold } from './fold.js'
import { defined, type Entry, type PersonalValue } from './frames.js'
import { enqueue, touchOutgoing } from './lane.js'
import { arrived, target } from './outbox.js'
import { takeSetting } from './personal.js'
import {
  convKey, convPrefix, entryPrefix, incomingKey, metaKey, outPrefix, positionPrefix, put, settingPrefix,
} from './rows.js'
import type { ConvRow, Meta, OutgoingRow, Position, Row, StoredRow } from './schema.js'
import type { Conv, Core } from './state.js'
import { countUnread } from './unread.js'

/** Takes the rows of the store. */
export function load(c: Core, rows: readonly StoredRow[]): void {
  const outgoing: OutgoingRow[] = []
  const entries = new Map<string, Entry[]>()
  const byKey = [...rows].sort((a, b) => (a.key < b.key ? -1 : 1)) // entries in the order of their seqs
  for (const { key, value } of byKey) {
    if (key === metaKey) c.meta = { ...c.meta, ...as<Meta>(key, value, { user: '', token: '' }) }
    else if (key.startsWith(convPrefix)) loadConv(c, as<ConvRow>(key, value, { conv: '', head: 0, have: 0, own: [] }))
    else if (key.startsWith(entryPrefix)) {
      const m = as<Entry>(key, value, { conv: '', seq: 0, from: '' })
      const of = entries.get(m.conv)
      if (of) of.push(m)
      else entries.set(m.conv, [m])
    } else if (key.startsWith(outPrefix)) outgoing.push(as<OutgoingRow>(key, value, { send: {}, n: 0, composedMs: 0 }))
    else if (key === incomingKey) c.incoming.begun = true
    else if (key.startsWith(settingPrefix)) takeSetting(c, as<PersonalValue>(key, value, { conv: '', user: '', name: '', seq: 0 }))
    else if (key.startsWith(positionPrefix)) c.incoming.positions.set(key.slice(positionPrefix.length), as<Position>(key, value, { seq: 0, history: '' }))
  }
  for (const [id, all] of entries) {
    const v = c.convs.get(id)
    if (!v) continue
    v.slots = all.filter((m) => m.seq > v.low && m.seq <= v.have).map((entry) => ({ entry, view: undefined }))
    refold(c, v)
  }
  c.rows.clear() // folding what is folded changes nothing
  for (const id of c.convs.keys()) c.changed.conversations.add(id)
  countUnread(c)
  adopt(c, outgoing)
  c.status = { ...c.status, user: c.meta.user, history: c.meta.history }
}

/** Looks at a few fields of a row, which a damaged store or another program may have written. */
function as<T extends object>(key: string, value: unknown, like: { readonly [K in keyof T]?: unknown }): T {
  const row = value as Readonly<Record<string, unknown>> | null
  for (const [name, one] of Object.entries(like)) {
    if (typeof row !== 'object' || row === null || typeof row[name] !== typeof one) throw new Error(`read row ${key}: it has no ${name}`)
  }
  return value as T
}

function loadConv(c: Core, { conv, history, mentions, mentionsTo, peerReceipt, ...fields }: ConvRow): void {
  const v = Object.assign(addConv(c, conv), fields)
  v.mentions.seqs = mentions
  v.mentions.to = mentionsTo
  if (v.peer !== '') {
    c.direct.set(v.peer, v.id)
    if (peerReceipt) receipt(v, v.peer, peerReceipt)
  }
  if (v.wantRead !== 0 || v.wantDelivered !== 0) move(c, v)
}

/**
 * Takes messages to be sent from the store: those of an earlier process, or of another tab.
 * tried: they may have been sent, so their fate is unknown.
 */
export function adopt(c: Core, rows: readonly OutgoingRow[], tried = true): void {
  for (const r of [...rows].sort((a, b) => a.n - b.n || a.composedMs - b.composedMs)) {
    if (c.sending.has(r.send.clientMsgId)) continue
    c.composed = Math.max(c.composed + 1, r.n)
    const o = enqueue(c, {
      id: r.send.clientMsgId, composedMs: r.composedMs, n: c.composed, send: r.send, state: r.state ?? 'sending', conv: r.send.conv, seq: 0, timeMs: 0,
      safe: false, tried, look: r.look, from: 0, until: 0, stale: r.stale, fresh: false, ...defined({ error: r.error }),
    })
    if (!r.state) c.fresh.push(o)
    touchOutgoing(c, o)
    const v = c.convs.get(target(c, o))
    const met = v?.slots.find(({ entry }) => entry.clientMsgId === o.id && entry.from === c.meta.user)
    if (v && met) arrived(c, v.id, met.entry) // this tab has its entry already
  }
}

/** Fields of a conversation that are stored as they are in memory. */
const convFields = [
  'known', 'kind', 'title', 'peer', 'role', 'left', 'joined', 'firstSeq', 'head', 'have', 'low', 'counted', 'countedAt', 'read', 'readCounted', 'deliveredTo', 'wantRead',
  'wantDelivered', 'own', 'damaged',
] as const satisfies readonly (keyof Conv & keyof ConvRow)[]

function convRow(c: Core, v: Conv): ConvRow {
  const fields = Object.fromEntries(convFields.map((name) => [name, v[name]])) as Partial<Conv> as Pick<Conv, (typeof convFields)[number]>
  return { conv: v.id, history: c.meta.history, ...fields, mentions: v.mentions.seqs, mentionsTo: v.mentions.to, ...defined({ peerReceipt: v.receipts.get(v.peer) }) }
}

/** What has to be written. */
export function takeRows(c: Core): Row[] {
  if (c.o.stored) for (const v of c.dirty) put(c, convKey(v.id), convRow(c, v))
  c.dirty.clear()
  if (c.metaDirty) put(c, metaKey, { ...c.meta })
  c.metaDirty = false
  const rows = Array.from(c.rows, ([key, value]) => ({ key, value }))
  c.rows.clear()
  return rows
}
