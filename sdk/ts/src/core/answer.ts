import type { Core } from './core.js'
import { addConv, type Conv, counts, takeEntry, touch } from './conversation.js'
import { type Failure, fromWire, unknowable } from './errors.js'
import { type Ack, defined, type Entry, type HistoryPage, type Send, type ServerFrame } from './frames.js'
import { dropLane, isFailed, lanesOf, type OutgoingState, remove, touchOutgoing, wakeLane } from './lane.js'
import { ask, type Live, retryAt } from './live.js'
import { discard, raise, target } from './outbox.js'
import { firstWaitMs, maxWaitMs } from './reach.js'
import { repair } from './repair.js'
import { outgoingRow, putOutgoing } from './rows.js'
import { type Outgoing, outgoingView, type SendState } from './snapshot.js'
import { startSync } from './sync.js'

const maxFailed = 256 // messages that are shown as failed; of more the oldest are discarded. Spec: S-16.2

/** Applies the answer to an attempt; undefined: the connection ended. Spec: P-4.8. */
export function answered(c: Core, o: OutgoingState, f: ServerFrame | undefined): void {
  const l = o.lane
  if (o.state !== 'sending') return // it was met in the history meanwhile
  if (f?.kind === 'ack') {
    l.fails = 0
    acked(c, o, f.ack)
    return
  }
  if (f?.kind !== 'error') {
    o.tried = true
    return
  }
  const e = f.error
  const ahead = e.code === 'after_ahead'
  if (e.settled) giveUp(c, o, fromWire(e))
  else if (e.code === 'too_old') settle(c, o, 'unknowable', unknowable)
  else if ((ahead || e.code === 'behind') && o.send.after !== undefined) {
    if (o.tried) {
      o.look = true
      o.from = ahead ? 0 : o.send.after
      o.until = e.head
    } else raise(c, o, e.head) // P-4.7: never stored
  } else {
    o.tried ||= e.code !== 'rate_limited' // after this the attempt is over
    o.error = fromWire(e)
    l.at = retryAt(c, e)
    if (e.retryAfterMs === 0) {
      l.at = c.now + Math.min(firstWaitMs << Math.min(l.fails, 5), maxWaitMs)
      l.fails++
    }
  }
}

/**
 * Settles a message that the server has refused, or that cannot be sent on this connection. An
 * earlier attempt whose outcome is unknown may have stored it. It may also still be on its way,
 * over a connection that was given up, and be stored after the refusal: the user may be a
 * member again by then. Spec: P-4.8, S-13.3.
 */
export function giveUp(c: Core, o: OutgoingState, why: Failure): void {
  if (o.tried) settle(c, o, 'unknowable', unknowable)
  else settle(c, o, 'rejected', why)
}

/** Makes an entry of what was sent. Spec: P-6.7, S-13.1. */
function acked(c: Core, o: OutgoingState, a: Ack): void {
  const v = addConv(c, a.conv || o.send.conv)
  o.conv = v.id
  o.seq = a.seq
  o.timeMs = a.timeMs
  settle(c, o, 'sent')
  if (!v.known) startSync(c)
  v.head = Math.max(v.head, a.seq)
  const m = ownCopy(c, v, o.send, a)
  if (m) takeEntry(c, v, m)
  else { // the history tells the whole of it
    touch(c, v)
    repair(c, v)
  }
  if (v.known && a.seq <= v.have) passed(c, v)
}

/**
 * The entry that a send has become: the fields of the send and those of the ack. Without rel
 * the count is that of the entry before, and undefined: the client does not hold that one.
 * Spec: P-4.3, S-13.2.
 */
function ownCopy(c: Core, v: Conv, s: Send, a: Ack): Entry | undefined {
  const m: Entry = { ...(a.message ?? entryOf(s)), conv: v.id, seq: a.seq, timeMs: a.timeMs, from: c.meta.user, counted: a.counted, threadN: a.threadN }
  if (s.rel) return m
  const before = countedBefore(v, a.seq)
  if (before === undefined) return undefined
  return { ...m, counted: counts(m) ? before + 1 : before }
}

/** counted of the entry below seq, if that is the last one the client holds. */
function countedBefore(v: Conv, seq: number): number | undefined {
  if (seq !== v.have + 1) return undefined
  if (v.have === 0) return 0
  if (v.countedAt === v.have) return v.counted
  const last = v.slots.at(-1)?.entry
  return last?.seq === v.have ? last.counted : undefined
}

function entryOf(s: Send): Entry {
  const { clientMsgId, type, text, data, edit, recall, rel } = s
  return {
    conv: '', seq: 0, from: '', clientMsgId, timeMs: 0, counted: 0, type, editedBy: 0, recalledBy: 0, threadN: 0,
    ...defined({ text, data, edit, recall, rel }),
  }
}

/**
 * Ends the sending of a message. The row of one that is sent stays until its entry is there: a
 * crash in between must not hide it. That of one that is not sent stays until it is discarded.
 * Spec: S-13.1, S-13.3.
 */
export function settle(c: Core, o: OutgoingState, state: SendState, why?: Failure): void {
  o.state = state
  if (why) o.error = why
  else delete o.error
  o.look = false
  o.lane.queue = o.lane.queue.filter((x) => x !== o)
  if (state !== 'sent') putOutgoing(c, o, outgoingRow(o).value)
  c.out.settled.push(outgoingView(o))
  touchOutgoing(c, o)
  const failed = isFailed(o) ? [...c.sending.values()].filter(isFailed) : []
  if (failed[maxFailed]) discard(c, failed[0]?.id ?? '')
}

/** Another tab has learned the fate of a message. */
export function settledElsewhere(c: Core, { id, conv, seq, timeMs, state, error }: Outgoing): void {
  const o = c.sending.get(id)
  if (o?.state !== 'sending') return
  Object.assign(o, { conv, seq, timeMs })
  settle(c, o, state, error)
  const v = c.convs.get(conv)
  if (v) passed(c, v)
}

/** The own message m is among the entries of a conversation. Spec: P-4.7, S-13.7. */
export function arrived(c: Core, conv: string, m: Entry): void {
  const o = c.sending.get(m.clientMsgId)
  if (!o || o.state === 'rejected') return
  if (o.state === 'sending') {
    foundAt(o, conv, m)
    settle(c, o, 'sent')
  }
  remove(c, o)
}

/** Notes where the history has the message. */
function foundAt(o: OutgoingState, conv: string, m: Entry): void {
  o.conv = conv
  o.seq = m.seq
  o.timeMs = m.timeMs
}

/** Drops what was sent from what is shown as on its way, when the client's view has moved over its place. */
export function passed(c: Core, v: Conv): void {
  for (const l of lanesOf(c, v.id, v.peer)) {
    for (const o of l.show) if (o.state === 'sent' && o.seq <= v.have) remove(c, o)
  }
}

/** Reads the history of the conversation of o above from, to the end, for o. Spec: P-4.7, P-6.6. */
export function lookFor(c: Core, lv: Live, o: OutgoingState, from: number): void {
  const conv = target(c, o)
  if (conv === '') { // there is no such conversation yet, so it is not in it
    o.look = false
    raise(c, o, o.until)
    wakeLane(c, o.lane)
    return
  }
  o.lane.busy++
  lv.reads++
  ask(c, lv, { history: { conv, after: from, limit: c.pageLimit } }, (f) => {
    lv.reads--
    if (f) lv.pages++
    o.lane.busy--
    if (o.state === 'sending' && f) looked(c, lv, o, from, f)
    wakeLane(c, o.lane)
    dropLane(c, o.lane)
  })
}

/** Applies one page of a search. */
function looked(c: Core, lv: Live, o: OutgoingState, from: number, f: ServerFrame): void {
  if (f.kind === 'error') {
    if (f.error.retryable) {
      o.from = from
      o.lane.at = retryAt(c, f.error)
    } else { // no member: the server's answer to the send says more
      o.look = false
      raise(c, o, o.until)
    }
    return
  }
  if (f.kind !== 'history') return
  const p = f.history
  const found = p.messages.find((m) => m.from === c.meta.user && m.clientMsgId === o.id)
  if (found) {
    foundAt(o, p.conv, found)
    settle(c, o, 'sent')
    const v = c.convs.get(p.conv)
    if (v && found.seq <= v.have) passed(c, v)
    return
  }
  if (removedSince(o, from, p)) {
    settle(c, o, 'unknowable', unknowable)
    return
  }
  const last = p.messages.at(-1)
  if (p.more && last) {
    lookFor(c, lv, o, last.seq)
    return
  }
  o.look = false
  raise(c, o, p.head)
}

/** Whether retention may have removed o: entries above from are gone, and what is left is younger than o. */
function removedSince(o: OutgoingState, from: number, p: HistoryPage): boolean {
  const first = p.messages[0]
  return p.firstSeq > from + 1 && from > 0 || p.firstSeq > 1 && first !== undefined && first.seq === p.firstSeq && first.timeMs > o.composedMs
}
