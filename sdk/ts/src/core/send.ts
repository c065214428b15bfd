import { clientFrame, type Encoded } from './codec.js'
import { addConv, counts, raiseHead, repair, touch } from './conversation.js'
import { takeEntry } from './entries.js'
import { type Failure, fromWire, invalid } from './errors.js'
import { type Ack, defined, type Entry, type HistoryPage, type Send, type ServerFrame } from './frames.js'
import { dropLane, wakeLane } from './sendlane.js'
import { askEncoded, askHistory, firstWaitMs, isDue, maxWaitMs, readsFull, retryAt, wantSync } from './request.js'
import { foundAt, passed, raise, settle, target } from './outbox.js'
import type { Conv, Core, Lane, Live, OutgoingState } from './state.js'

/** How long after its composition a message is still sent. Spec: P-4.8. */
const giveUpMs = 30 * 24 * 60 * 60 * 1000

/** Sends what may go out. */
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

/** What a look at a lane found. later: the next step looks again; full: so is the window of the connection. */
type Looked = 'done' | 'later' | 'full'

/** Sends the first message of a lane. */
function sendLane(c: Core, lv: Live, l: Lane): Looked {
  for (let o = l.queue[0]; o && l.busy === 0; o = l.queue[0]) {
    if (!o.safe) return 'later'
    // Its after comes from what the client knew before the connection, and so does where to
    // look for it. Without an after the server looks up the id.
    if (o.send.after !== undefined && !lv.synced) return 'later'
    if (c.now - o.composedMs > giveUpMs) settle(c, o, 'unknowable')
    else if (!isDue(c, l.at)) return 'later'
    else if (o.stale && !o.look) {
      giveUp(c, o, invalid('the server went back: the target is gone', 'no_target'))
    } else if (o.fresh) {
      o.fresh = false
      raise(c, o, c.convs.get(target(c, o))?.head ?? 0)
      return 'later'
    } else if (o.look) {
      if (readsFull(lv)) return 'later'
      lookFor(c, lv, o, o.from)
      return 'done'
    } else {
      const sent = sendOne(c, lv, l, o)
      if (sent !== 'later') return sent
    } // it was settled without being sent: the next one must not wait for it
  }
  return 'done'
}

/** Sends a message within the window. later: it cannot be sent, and is settled. Spec: P-4.6. */
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
  else if (e.code === 'too_old') settle(c, o, 'unknowable')
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
  if (o.tried) settle(c, o, 'unknowable')
  else settle(c, o, 'rejected', why)
}

/** Makes an entry of what was sent. Spec: P-6.7, S-13.1. */
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
    settle(c, o, 'unknowable')
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
