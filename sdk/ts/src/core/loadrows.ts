import { addConv } from './conversation.js'
import { move, receipt } from './cursor.js'
import { reapplyEdits } from './edits.js'
import { defined, type Entry, type PersonalValue } from './frames.js'
import { adopt } from './outbox.js'
import { takeSetting } from './settings.js'
import {
  convKey, convPrefix, entryPrefix, incomingKey, metaKey, outPrefix, positionPrefix, put, settingPrefix,
} from './rows.js'
import type { ConvRow, Meta, OutgoingRow, Position, Row, StoredRow } from './schema.js'
import type { Conv, Core, Cursors } from './state.js'
import { countUnread } from './unread.js'

/** Loads the rows of the store into the core. */
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
    reapplyEdits(c, v)
  }
  c.store.rows.clear() // loading queued rows, but they are stored already
  for (const id of c.convs.keys()) c.changed.conversations.add(id)
  countUnread(c)
  adopt(c, outgoing)
  c.status = { ...c.status, user: c.meta.user, history: c.meta.history }
}

/** Checks the types of a few fields of a row, because the store may be damaged or written by another program. */
function as<T extends object>(key: string, value: unknown, like: { readonly [K in keyof T]?: unknown }): T {
  const row = value as Readonly<Record<string, unknown>> | null
  for (const [name, one] of Object.entries(like)) {
    if (typeof row !== 'object' || row === null || typeof row[name] !== typeof one) throw new Error(`read row ${key}: it has no ${name}`)
  }
  return value as T
}

function loadConv(c: Core, row: ConvRow): void {
  const v = Object.assign(addConv(c, row.conv), fieldsOf(row, convFields))
  Object.assign(v.cursors, fieldsOf(row, cursorFields))
  v.mentions.seqs = row.mentions
  v.mentions.to = row.mentionsTo
  if (v.peer !== '') {
    c.direct.set(v.peer, v.id)
    if (row.peerReceipt) receipt(v, v.peer, row.peerReceipt)
  }
  if (v.cursors.wantRead !== 0 || v.cursors.wantDelivered !== 0) move(c, v)
}

// Fields that are stored as they are in memory.
const convFields = [
  'known', 'kind', 'title', 'peer', 'role', 'left', 'joined', 'firstSeq', 'head', 'have', 'low', 'counted', 'countedAt',
  'damaged',
] as const satisfies readonly (keyof Conv & keyof ConvRow)[]
const cursorFields = [
  'read', 'readCounted', 'deliveredTo', 'wantRead', 'wantDelivered', 'own',
] as const satisfies readonly (keyof Cursors & keyof ConvRow)[]

function fieldsOf<T, K extends keyof T>(from: T, names: readonly K[]): Pick<T, K> {
  const fields: Partial<Pick<T, K>> = {}
  for (const name of names) fields[name] = from[name]
  return fields as Pick<T, K>
}

function convRow(c: Core, v: Conv): ConvRow {
  return {
    conv: v.id, history: c.meta.history, ...fieldsOf(v, convFields), ...fieldsOf(v.cursors, cursorFields),
    mentions: v.mentions.seqs, mentionsTo: v.mentions.to, ...defined({ peerReceipt: v.cursors.receipts.get(v.peer) }),
  }
}

/** Returns the rows to be written, and empties the queue. */
export function takeRows(c: Core): Row[] {
  if (c.o.stored) for (const v of c.store.dirty) put(c, convKey(v.id), convRow(c, v))
  c.store.dirty.clear()
  if (c.store.metaDirty) put(c, metaKey, { ...c.meta })
  c.store.metaDirty = false
  const rows = Array.from(c.store.rows, ([key, value]) => ({ key, value }))
  c.store.rows.clear()
  return rows
}
