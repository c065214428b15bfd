import { clientFrame, type Encoded } from './codec.js'
import { addConv, counts, raiseHead, repair, touch } from './conversation.js'
import { takeEntry } from './entries.js'
import { type Failure, fromWire, invalid } from './errors.js'
import { type Ack, defined, type Entry, type HistoryPage, type Send, type ServerFrame } from './frames.js'
import { dropLane, touchOutgoing, wakeLane } from './sendlane.js'
import { askEncoded, askHistory, firstWaitMs, isDue, maxWaitMs, readsFull, retryAt, wantSync } from './request.js'
import { foundAt, passed, setAfter, settle, target } from './outbox.js'
import type { Conv, Core, Lane, Live, OutgoingState } from './state.js'

/** How long after its composition a message is still sent. Spec: P-4.8. */
const giveUpMs = 30 * 24 * 60 * 60 * 1000

/** Sends the messages that may go out. */
export function sendAll(c: Core, lv: Live): void {
  const lanes = [...c.outbox.ready]
  c.outbox.ready.clear()
  let isFull = false
  for (const l of lanes) {
    const looked: Looked = isFull ? 'later' : sendLane(c, lv, l)
    if (looked !== 'done') c.outbox.ready.add(l)
    isFull ||= looked === 'full'
  }
}

/**
 * The result of sendLane. later: the next step tries again. full: the window of the connection is full, so
 * other lanes wait too.
 */
type Looked = 'done' | 'later' | 'full'

/**
 * Handles the first message of a lane: sends it, or searches for it in the history. A message that cannot be sent any
 * more is settled, and the next one follows.
 */
function sendLane(c: Core, lv: Live, l: Lane): Looked {
  for (let o = l.queue[0]; o && l.busy === 0; o = l.queue[0]) {
    if (!o.safe) return 'later'
    // Its `after` and the seq where a search begins are from before this connection, so the sync comes first.
    // Without an `after` the server looks up the id.
    if (o.send.after !== undefined && !lv.synced) return 'later'
    if (c.now - o.composedMs > giveUpMs) settle(c, o, 'unknowable')
    else if (!isDue(c, l.at)) return 'later'
    else if (o.stale && !o.look) {
      giveUp(c, o, invalid('the server went back: the target is gone', 'no_target'))
    } else if (o.fresh) {
      o.fresh = false
      setAfter(c, o, c.convs.get(target(c, o))?.head ?? 0)
      return 'later'
    } else if (o.look) {
      if (readsFull(lv)) return 'later'
      lookFor(c, lv, o, o.from)
      return 'done'
    } else {
      const sent = sendOne(c, lv, l, o)
      if (sent !== 'later') return sent
    } // the message was settled without being sent: go on with the next one
  }
  return 'done'
}

/**
 * Sends a message, if the window has room. It returns later if the message cannot be sent and was settled.
 * Spec: P-4.6.
 */
function sendOne(c: Core, lv: Live, l: Lane, o: OutgoingState): Looked {
  let f: Encoded
  try {
    f = c.encode(clientFrame(lv.nextId + 1, { send: o.send }))
  } catch (why) {
    giveUp(c, o, invalid(String(why)))
    return 'later'
  }
  if (lv.welcome.limits.frameBytes > 0 && f.bytes > lv.welcome.limits.frameBytes) {
    giveUp(c, o, invalid(`the frame has ${f.bytes} bytes`, 'too_large'))
    return 'later'
  }
  const w = lv.welcome.window
  if (w && lv.sends > 0 && (lv.sends >= w.sends || lv.sendBytes + f.bytes > w.bytes)) return 'full'
  lv.sends++
  lv.sendBytes += f.bytes
  l.busy++
  askEncoded(c, lv, 'send', f, (answer) => {
    lv.sends--
    lv.sendBytes -= f.bytes
    o.lane.busy--
    answered(c, o, answer)
    wakeLane(c, o.lane)
    dropLane(c, o.lane)
  })
  return 'done'
}

/** Applies the answer to an attempt; undefined: the connection ended. Spec: P-4.8. */
export function answered(c: Core, o: OutgoingState, f: ServerFrame | undefined): void {
  const l = o.lane
  if (o.state !== 'sending') return // its entry came meanwhile
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
  else if (e.code === 'too_old') settle(c, o, 'unknowable')
  else if ((ahead || e.code === 'behind') && o.send.after !== undefined) {
    if (o.tried) {
      o.look = true
      o.from = ahead ? 0 : o.send.after
      o.until = e.head
    } else setAfter(c, o, e.head) // P-4.7: no attempt was stored
  } else {
    o.tried ||= e.code !== 'rate_limited' // a rate limit proves that it was not stored
    o.error = fromWire(e)
    touchOutgoing(c, o)
    l.at = retryAt(c, e)
    if (e.retryAfterMs === 0) {
      l.at = c.now + Math.min(firstWaitMs << Math.min(l.fails, 5), maxWaitMs)
      l.fails++
    }
  }
}

/**
 * Settles a message that the server has refused, or that cannot be sent on this connection: as rejected, or as
 * unknowable if an earlier attempt has no outcome. That attempt may have stored it. It may even still be under
 * way over a lost connection, and be stored later, when the user is a member again. Spec: P-4.8, S-13.3.
 */
export function giveUp(c: Core, o: OutgoingState, why: Failure): void {
  if (o.tried) settle(c, o, 'unknowable')
  else settle(c, o, 'rejected', why)
}

/** Makes an entry of a message that was acked. Spec: P-6.7, S-13.1. */
function acked(c: Core, o: OutgoingState, a: Ack): void {
  const v = addConv(c, a.conv || o.send.conv)
  o.conv = v.id
  o.seq = a.seq
  o.timeMs = a.timeMs
  settle(c, o, 'sent')
  if (!v.known) wantSync(c)
  raiseHead(v, a.seq)
  const m = ownCopy(c, v, o.send, a)
  if (m) takeEntry(c, v, m)
  else { // the entry is read from the history
    touch(c, v)
    repair(c, v)
  }
  if (v.known && a.seq <= v.have) passed(c, v)
}

/**
 * Returns the entry that a send has become, from its fields and those of the ack. If the send has no rel, its
 * counted follows from the entry before; undefined: the client does not hold that entry. Spec: P-4.3, S-13.2.
 */
function ownCopy(c: Core, v: Conv, s: Send, a: Ack): Entry | undefined {
  const m: Entry = { ...(a.message ?? entryOf(s)), conv: v.id, seq: a.seq, timeMs: a.timeMs, from: c.meta.user, counted: a.counted, threadN: a.threadN }
  if (s.rel) return m
  const before = countedBefore(v, a.seq)
  if (before === undefined) return undefined
  return { ...m, counted: counts(m) ? before + 1 : before }
}

/** Returns the counted of the entry before seq, if the client has all entries up to it and knows it. */
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

/** Searches for o in the history of its conversation: all entries above the seq `from`. Spec: P-4.7, P-6.6. */
export function lookFor(c: Core, lv: Live, o: OutgoingState, from: number): void {
  const conv = target(c, o)
  if (conv === '') { // there is no conversation yet, so the message is not stored
    o.look = false
    setAfter(c, o, o.until)
    wakeLane(c, o.lane)
    return
  }
  o.lane.busy++
  askHistory(c, lv, { conv, after: from, limit: c.pageLimit }, (f) => {
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
    } else { // the user may not read the history: the message is sent again, and the answer of the server decides
      o.look = false
      setAfter(c, o, o.until)
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
    settle(c, o, 'unknowable')
    return
  }
  const last = p.messages.at(-1)
  if (p.more && last) {
    lookFor(c, lv, o, last.seq)
    return
  }
  o.look = false
  setAfter(c, o, p.head)
}

/**
 * Whether retention may have removed o. It may have if `from` is above 0 and the entry after it is gone. It also may
 * have if the beginning of the history is gone and the oldest entry left is younger than o.
 */
function removedSince(o: OutgoingState, from: number, p: HistoryPage): boolean {
  const first = p.messages[0]
  return p.firstSeq > from + 1 && from > 0 || p.firstSeq > 1 && first !== undefined && first.seq === p.firstSeq && first.timeMs > o.composedMs
}
