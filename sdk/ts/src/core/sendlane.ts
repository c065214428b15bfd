import { touchId } from './conversation.js'
import { defined } from './frames.js'
import { outgoingKey, put } from './rows.js'
import type { Row, RowValue } from './schema.js'
import type { Conv, Core, Lane, OutgoingState } from './state.js'

function laneOf(c: Core, key: string): Lane {
  let l = c.outbox.lanes.get(key)
  if (!l) {
    l = { key, queue: [], show: [], busy: 0, at: 0, fails: 0 }
    c.outbox.lanes.set(key, l)
  }
  return l
}

/** Adds a message to its lane. A settled one is only shown. */
export function enqueue(c: Core, m: Omit<OutgoingState, 'lane'>): OutgoingState {
  const peer = m.send.user || c.convs.get(m.send.conv)?.peer
  const l = laneOf(c, peer ? `u:${peer}` : `c:${m.send.conv}`)
  const o = { ...m, lane: l }
  if (o.state === 'sending') l.queue.push(o)
  l.show.push(o)
  c.outbox.sending.set(o.id, o)
  return o
}

/** Drops a message and its row: it has become an entry, or a person has discarded it. */
export function remove(c: Core, o: OutgoingState): void {
  const l = o.lane
  l.queue = l.queue.filter((x) => x !== o)
  l.show = l.show.filter((x) => x !== o)
  c.outbox.sending.delete(o.id)
  putOutgoing(c, o, null)
  dropLane(c, l)
  touchOutgoing(c, o)
}

/** Marks the shown state of a message as changed. While its conversation is not known, its user names it. */
export function touchOutgoing(c: Core, { conv, send: { user, conv: to } }: OutgoingState): void {
  const direct = c.direct.get(user)
  if (user !== '' && direct === undefined) c.changed.pending = true
  touchId(c, conv || (direct ?? to))
}

/** Whether a message has failed. It is shown until it is discarded. */
export function isFailed(o: OutgoingState): boolean {
  return o.state === 'rejected' || o.state === 'unknowable'
}

export function dropLane(c: Core, l: Lane): void {
  if (l.show.length === 0 && l.busy === 0 && c.outbox.lanes.get(l.key) === l) c.outbox.lanes.delete(l.key)
}

/**
 * Merges the two lanes of a direct conversation, by its id and by its other user, once the client knows that
 * they belong together. Spec: S-12.9.
 */
export function join(c: Core, v: Conv): void {
  const from = c.outbox.lanes.get(`c:${v.id}`)
  if (!from || v.peer === '') return
  const to = laneOf(c, `u:${v.peer}`)
  for (const o of from.show) o.lane = to
  to.queue = [...to.queue, ...from.queue].sort(byAge)
  to.show = [...to.show, ...from.show].sort(byAge)
  to.busy += from.busy
  from.queue = []
  from.show = []
  c.outbox.lanes.delete(from.key)
  wakeLane(c, to)
}

export function byAge(a: OutgoingState, b: OutgoingState): number {
  return a.n - b.n
}

/** Queues a lane for the next step. */
export function wakeLane(c: Core, l: Lane): void {
  if (l.queue.length > 0) c.outbox.ready.add(l)
}

/** Returns the lanes with unsettled messages, by the age of their first messages. */
export function lanesByAge(c: Core): Lane[] {
  const oldest = (l: Lane): number => l.queue[0]?.n ?? 0
  return [...c.outbox.lanes.values()].filter((l) => l.queue.length > 0).sort((a, b) => oldest(a) - oldest(b))
}

/** Returns the lanes of a conversation: by its id, and by its other user. */
export function lanesOf(c: Core, conv: string, peer: string): Lane[] {
  const byId = c.outbox.lanes.get(`c:${conv}`)
  const byPeer = peer === '' ? undefined : c.outbox.lanes.get(`u:${peer}`)
  return [byId, byPeer].filter((l) => l !== undefined)
}

/**
 * Queues the row of a changed message. The message goes out once the row is durable. If another tab sends, that
 * tab writes its own changes, so this one writes nothing.
 */
export function storeOutgoing(c: Core, o: OutgoingState): void {
  if (!c.outbox.sends) return
  o.safe = false
  put(c, outgoingKey(o.id), outgoingRow(o).value)
  c.outbox.fresh.push(o)
}

/** Queues the row of a message; null removes it. If another tab sends, that tab writes it. */
export function putOutgoing(c: Core, o: OutgoingState, value: RowValue | null): void {
  if (c.outbox.sends) put(c, outgoingKey(o.id), value)
}

/**
 * Returns the row of a message. A draft is written outside the turns, so its row may replace a newer one. That
 * does no harm: the message was not sent before the write, so its first after holds, under any history id.
 */
export function outgoingRow(o: OutgoingState): Row {
  const { send, n, composedMs, state, error } = o
  const fate = state === 'rejected' || state === 'unknowable' ? { state, ...defined({ error }) } : {}
  return { key: outgoingKey(o.id), value: { send, n, composedMs, look: o.look || o.fresh, stale: o.stale, ...fate } }
}

/** Takes the messages whose rows are to be written. */
export function takeFresh(c: Core): OutgoingState[] {
  const { fresh } = c.outbox
  c.outbox.fresh = []
  return fresh
}

/** Lets a message go out: its row is durable in the store. */
export function release(c: Core, o: OutgoingState): void {
  o.safe = true
  wakeLane(c, o.lane)
}

/** Ends the wait of messages that a draining server refused: the next server may take them at once. */
export function endDrain(c: Core): void {
  for (const l of c.outbox.lanes.values()) if (l.queue[0]?.error?.code === 'draining') l.at = 0
}
