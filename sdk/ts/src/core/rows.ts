import type { Core } from './core.js'
import { arrived, settle } from './answer.js'
import { addConv, type Conv, heardCounted } from './conversation.js'
import { markRead, markDelivered, move, receipt } from './cursor.js'
import { type ConvKind, defined, type Entry, type PersonalValue, type Range, type Receipt, type Role, type Send } from './frames.js'
import { type Failure, unknowable } from './errors.js'
import { refold } from './fold.js'
import { discard, target } from './outbox.js'
import { enqueue, isFailed, type OutgoingState, remove, touchOutgoing } from './lane.js'
import { takeSetting } from './personal.js'
import { moveTo, type Position } from './position.js'
import { countUnread } from './unread.js'

// Keys of the store: one table of rows, by key.
const metaKey = 'meta'
const incomingKey = 'incoming' // Incoming was used
const convPrefix = 'c/'
const entryPrefix = 'e/' // by conversation and seq
const outPrefix = 'o/' // by client message id
const positionPrefix = 'p/' // of Incoming, by conversation
const settingPrefix = 's/' // by conversation, user and name

export const convKey = (id: string): string => convPrefix + id
export const outgoingKey = (id: string): string => outPrefix + id
export const entryKey = (conv: string, seq: number): string => `${entryPrefix}${conv}/${seq.toString(16).padStart(16, '0')}`
export const positionKey = (conv: string): string => positionPrefix + conv
/** Ids of conversations and users have no slash. */
export const settingKey = (conv: string, user: string, name: string): string => `${settingPrefix}${conv}/${user}/${name}`

/** What the store knows besides conversations and messages. */
export interface Meta {
  user: string
  device: string
  history: string // the history id that all else belongs to
  inbox: string
  token: string // of the newest sync page that was applied; '': none
  synced: boolean // a whole sync was applied: what shows up now is new
}

/** A conversation as it is stored. Most fields have the names that they have in memory. */
export interface ConvRow {
  readonly conv: string
  readonly history: string // that all its seqs belong to
  readonly known: boolean
  readonly kind: ConvKind
  readonly title: string
  readonly peer: string
  readonly role: Role
  readonly left: boolean
  readonly joined: number
  readonly firstSeq: number
  readonly head: number
  readonly have: number
  readonly low: number
  readonly counted: number
  readonly countedAt: number
  readonly read: number
  readonly readCounted: number
  readonly deliveredTo: number
  readonly wantRead: number
  readonly wantDelivered: number
  readonly own: readonly number[]
  readonly damaged: readonly Range[]
  readonly mentions: readonly number[]
  readonly mentionsTo: number
  readonly peerReceipt?: Receipt
}

/** A message to be sent, or one that was not, as it is stored. */
export interface OutgoingRow {
  readonly send: Send
  /** Order of composition. */
  readonly n: number
  readonly composedMs: number
  readonly look: boolean
  readonly stale: boolean
  /** Absent: it is still to be sent. */
  readonly state?: 'rejected' | 'unknowable'
  /** With a state. */
  readonly error?: Failure
}

/** The value of a row: plain data that can be cloned, with bytes as Uint8Array. */
export type RowValue = Readonly<Meta> | ConvRow | Entry | OutgoingRow | PersonalValue | Position | true

/** A row to be written; null removes the key. */
export interface Row {
  readonly key: string
  readonly value: RowValue | null
}

/** A row of the store, of which nothing is known but what it says. */
export interface StoredRow {
  readonly key: string
  readonly value: unknown
}

/** Notes a row to be written; null removes it. */
export function put(c: Core, key: string, value: RowValue | null): void {
  if (c.o.stored) c.rows.set(key, value)
}

/** Stores an entry, unless it is one of the window. */
export function keep(c: Core, v: Conv, m: Entry): void {
  if (c.o.stored && m.seq > v.low) c.rows.set(entryKey(m.conv, m.seq), m)
}

/**
 * Notes a message to be sent that has changed. It goes out once its row is durable. Where
 * another tab sends, that one stores what it changes.
 */
export function storeOutgoing(c: Core, o: OutgoingState): void {
  if (!c.sends) return
  o.safe = false
  put(c, outgoingKey(o.id), outgoingRow(o).value)
  c.fresh.push(o)
}

/** Notes the row of a message, unless another tab sends, which writes it. */
export function putOutgoing(c: Core, o: OutgoingState, value: RowValue | null): void {
  if (c.sends) put(c, outgoingKey(o.id), value)
}

/**
 * A message as it is stored. A row of a draft that arrives after a newer one of a turn does no
 * harm: the message has not been sent before it is stored, so its first after holds, under
 * whatever history.
 */
export function outgoingRow(o: OutgoingState): Row {
  const { send, n, composedMs, state, error } = o
  const fate = state === 'rejected' || state === 'unknowable' ? { state, ...defined({ error }) } : {}
  return { key: outgoingKey(o.id), value: { send, n, composedMs, look: o.look || o.fresh, stale: o.stale, ...fate } }
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

/** The rows that note that Incoming is in use, with its first positions. */
export function incomingRow(): Row {
  return { key: incomingKey, value: true }
}

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

/**
 * Takes what another tab tells: of the outbox a message to be shown, or one that was discarded,
 * and, if this one leads, a conversation with a cursor that the other one may have no time to
 * tell the server. tried: what is new of the outbox may have been sent. Spec: S-14.1.
 */
export function mirror(c: Core, rows: readonly StoredRow[], tried: boolean): void {
  for (const { key, value } of rows) {
    const o = c.sending.get(key.slice(outPrefix.length))
    if (key.startsWith(convPrefix)) {
      if (c.sends) takeCursors(c, value as ConvRow)
    } else if (value) adopt(c, [value as OutgoingRow], tried)
    else if (o && isFailed(o)) remove(c, o)
  }
}

/** Another tab sends the messages. What this one was about to store of them is not true any more. */
export function follow(c: Core): void {
  c.sends = false
  for (const [key, value] of c.rows) if (value && key.startsWith(outPrefix)) c.rows.delete(key)
}

/**
 * From now on this tab sends the messages. rows is what the tab before it has left in the
 * store: cursors and positions of the application that no server knows, the id of the device,
 * and what became of messages. Any of them may have been sent meanwhile. One whose row is gone
 * has met its fate, which this tab has not heard of: it must not be sent again.
 */
export function lead(c: Core, rows?: readonly StoredRow[]): void {
  c.sends = true
  if (!rows) return // it was not open: what is there is loaded
  c.metaDirty = true
  const stored = new Map(rows.map(({ key, value }) => [key, value]))
  const meta = stored.get(metaKey) as Meta | undefined
  if (meta && c.o.device === undefined) c.meta.device = meta.device
  for (const [key, value] of stored) {
    if (key.startsWith(settingPrefix)) takeSetting(c, value as PersonalValue)
    if (key.startsWith(outPrefix)) adopt(c, [value as OutgoingRow])
    if (key.startsWith(convPrefix)) takeCursors(c, value as ConvRow)
    if (key.startsWith(positionPrefix)) takePosition(c, key.slice(positionPrefix.length), value as Position)
  }
  for (const o of c.sending.values()) {
    const r = stored.get(outgoingKey(o.id)) as OutgoingRow | undefined
    if (isFailed(o)) {
      if (!r) remove(c, o)
    } else if (o.state !== 'sending') continue
    else if (r) { // it is looked for before it gets another after
      o.look ||= o.fresh || r.look
      o.tried = true
      o.send = r.send
      if (r.state) settle(c, o, r.state, r.error)
    } else if (o.safe) {
      settle(c, o, 'unknowable', unknowable)
      discard(c, o.id)
    }
  }
}

/** Takes the cursors that another tab has moved and told nobody. */
function takeCursors(c: Core, { conv, history, head, counted, countedAt, wantRead, wantDelivered }: ConvRow): void {
  if (history !== c.meta.history || wantRead + wantDelivered === 0) return
  const v = addConv(c, conv)
  v.head = Math.max(v.head, head)
  heardCounted(v, countedAt, counted)
  markRead(c, conv, wantRead)
  markDelivered(c, conv, wantDelivered)
}

function takePosition(c: Core, conv: string, p: Position): void {
  c.incoming.begun = true
  if (p.history === c.meta.history && p.seq > (c.incoming.positions.get(conv)?.seq ?? 0)) put(c, positionKey(conv), moveTo(c, conv, p).value)
}
