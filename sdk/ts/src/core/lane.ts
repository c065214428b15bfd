import type { Conv } from './conversation.js'
import type { Core } from './core.js'
import type { Failure } from './errors.js'
import type { Send } from './frames.js'
import { touchId } from './conversation.js'
import type { Outgoing, SendState } from './snapshot.js'
import { putOutgoing } from './rows.js'

/** A message on its way. */
export interface OutgoingState {
  readonly id: string
  readonly composedMs: number
  readonly n: number // order of composition
  lane: Lane
  send: Send // replaced, never changed; its after changes only as P-4.7 says
  state: SendState
  conv: string // '' until known
  seq: number
  timeMs: number // when the server stored it
  error?: Failure // of the newest attempt
  safe: boolean // its row is durable: it may go out
  tried: boolean // an attempt may have stored it, or may still do so
  look: boolean // to be looked for in the history before it is sent
  from: number
  until: number // after, if the history does not tell
  stale: boolean // its target is a seq of another history id: it is not sent any more
  fresh: boolean // never sent, composed under another history id: after is the head now
  view?: Outgoing // the snapshot that was given last
  sent?: Send // what it was made of
}

/**
 * The queue of one conversation: one message at a time is on its way, which keeps the order
 * even when the server refuses one for the moment. Spec: P-4.3, S-12.3.
 */
export interface Lane {
  readonly key: string
  queue: OutgoingState[] // oldest first, not settled
  show: OutgoingState[] // oldest first, not among the entries of the conversation
  busy: number // messages whose answer is awaited: at most one, unless two lanes turned out to be one
  ready: boolean // in core.ready
  at: number // nothing is sent before
  fails: number // refusals in a row that named no time
}

function laneOf(c: Core, key: string): Lane {
  let l = c.lanes.get(key)
  if (!l) {
    l = { key, queue: [], show: [], busy: 0, ready: false, at: 0, fails: 0 }
    c.lanes.set(key, l)
  }
  return l
}

/** Puts a message at the end of its lane; one whose fate is known is only shown. */
export function enqueue(c: Core, m: Omit<OutgoingState, 'lane'>): OutgoingState {
  const peer = m.send.user || c.convs.get(m.send.conv)?.peer
  const l = laneOf(c, peer ? `u:${peer}` : `c:${m.send.conv}`)
  const o = { ...m, lane: l }
  if (o.state === 'sending') l.queue.push(o)
  l.show.push(o)
  c.sending.set(o.id, o)
  return o
}

/** Forgets a message: it is among the entries, or a person has seen its fate. */
export function remove(c: Core, o: OutgoingState): void {
  const l = o.lane
  l.queue = l.queue.filter((x) => x !== o)
  l.show = l.show.filter((x) => x !== o)
  c.sending.delete(o.id)
  putOutgoing(c, o, null)
  dropLane(c, l)
  touchOutgoing(c, o)
}

/** Notes that what is shown of a message has changed. Before a conversation is known, its user names it. */
export function touchOutgoing(c: Core, { conv, send: { user, conv: to } }: OutgoingState): void {
  const direct = c.direct.get(user)
  if (user !== '' && direct === undefined) c.changed.pending = true
  touchId(c, conv || (direct ?? to))
}

/** Whether a message was not sent, and is shown until somebody discards it. */
export function isFailed(o: OutgoingState): boolean {
  return o.state === 'rejected' || o.state === 'unknowable'
}

export function dropLane(c: Core, l: Lane): void {
  if (l.show.length === 0 && l.busy === 0 && c.lanes.get(l.key) === l) c.lanes.delete(l.key)
}

/**
 * Makes one lane of those to a direct conversation by its id and by its other user, once it
 * is known that they are the same. Spec: S-12.9.
 */
export function join(c: Core, v: Conv): void {
  const from = c.lanes.get(`c:${v.id}`)
  if (!from || v.peer === '') return
  const to = laneOf(c, `u:${v.peer}`)
  for (const o of from.show) o.lane = to
  to.queue = [...to.queue, ...from.queue].sort(byAge)
  to.show = [...to.show, ...from.show].sort(byAge)
  to.busy += from.busy
  from.queue = []
  from.show = []
  c.lanes.delete(from.key)
  wakeLane(c, to)
}

export function byAge(a: OutgoingState, b: OutgoingState): number {
  return a.n - b.n
}

/** Has a lane looked at in the next step. */
export function wakeLane(c: Core, l: Lane): void {
  if (!l.ready && l.queue.length > 0) {
    l.ready = true
    c.ready.push(l)
  }
}

/** The lanes with messages that are not settled, by their oldest ones. */
export function lanesByAge(c: Core): Lane[] {
  const oldest = (l: Lane): number => l.queue[0]?.n ?? 0
  return [...c.lanes.values()].filter((l) => l.queue.length > 0).sort((a, b) => oldest(a) - oldest(b))
}

/** The lanes to a conversation: by its id, and by its other user. */
export function lanesOf(c: Core, conv: string, peer: string): Lane[] {
  const byId = c.lanes.get(`c:${conv}`)
  const byPeer = peer === '' ? undefined : c.lanes.get(`u:${peer}`)
  return [byId, byPeer].filter((l) => l !== undefined)
}
