import { answered, giveUp, lookFor, settle } from './answer.js'
import { clientFrame, type Encoded, saying, utf8Length } from './codec.js'
import { alarmAt, type Core } from './core.js'
import { type Failure, invalid, refusal, unknowable } from './errors.js'
import { defined, type Edit, type Relations, type Send } from './frames.js'
import { dropLane, enqueue, isFailed, type Lane, type OutgoingState, remove, touchOutgoing, wakeLane } from './lane.js'
import { askEncoded, type Live, readsFull } from './live.js'
import { outgoingKey, outgoingRow, put, type Row, storeOutgoing } from './rows.js'
import { type Draft, type Outgoing, outgoingView } from './snapshot.js'

/** How long after its composition a message is still sent. Spec: P-4.8. */
const giveUpMs = 30 * 24 * 60 * 60 * 1000

const maxId = 64 // bytes of an id and of a type

/** What became of a draft. */
export type Drafted =
  | { readonly refused: Failure }
  /** row is to be written, and then kept or lost is called; without one the message was taken before. */
  | { readonly refused?: undefined; readonly outgoing: Outgoing; readonly row?: Row }

/**
 * Takes a message to be sent. It goes out once its row is in the store, durable, and kept
 * was called. Spec: P-4.9, S-12.1.
 */
export function draft(c: Core, d: Draft): Drafted {
  const s = sendOf(d, c.newId)
  if ('kind' in s) return { refused: s }
  const old = c.sending.get(s.clientMsgId)
  if (old) {
    if (saying(s) === saying(old.send)) return { outgoing: outgoingView(old) }
    return { refused: refusal('conflict', 'another message has this id', { settled: true }) }
  }
  const o = compose(c, s, d.id === undefined)
  return { outgoing: outgoingView(o), row: outgoingRow(o) }
}

/** The row of a message is in the store, durable. */
export function kept(c: Core, id: string): void {
  const o = c.sending.get(id)
  if (!o) return
  o.safe = true
  wakeLane(c, o.lane)
}

/** The row of a message could not be written: it is not taken. Spec: S-17.2. */
export function lost(c: Core, id: string): void {
  const o = c.sending.get(id)
  if (o) remove(c, o)
}

/** Stops showing a message whose fate is known, and which is not stored. */
export function discard(c: Core, id: string): void {
  const o = c.sending.get(id)
  if (!o || !isFailed(o)) return
  put(c, outgoingKey(id), null)
  remove(c, o)
}

/** The draft as a send without its after, or why it is none. Spec: S-12.8. */
function sendOf(d: Draft, newId: () => string): Send | Failure {
  if (!d.conv === !d.user) return invalid('one of conv and user is set')
  const bodies = [d.data, d.edit, d.recall, d.forward].filter((b) => b !== undefined).length
  if (bodies > 1 || bodies === 1 && d.text) return invalid('a message has one body')
  const texts = [d.conv, d.user, d.id, d.type, d.text, d.edit?.text, d.edit?.type, d.forward?.conv, ...d.mentions ?? []].filter((t) => t !== undefined)
  if (!texts.every(isText)) return invalid('a text is not UTF-8') // it would end the connection, P-2.4
  if ([d.id, d.type].some((t) => t !== undefined && utf8Length(t) > maxId)) return invalid('an id and a type have at most 64 bytes')
  const seqs = [d.replyTo, d.thread, d.edit?.target, d.recall?.target, d.forward?.seq]
  if (!seqs.every((n) => n === undefined || Number.isSafeInteger(n) && n >= 0)) return invalid('a seq is a whole number')
  const edit = d.edit && editOf(d.edit)
  const rel = relOf(d)
  return {
    conv: d.conv ?? '', user: d.user ?? '', clientMsgId: d.id ?? newId(), type: d.type ?? '',
    needs: [...(rel || edit?.rel ? ['rel'] : []), ...(rel && mentions(rel) ? ['mentions'] : [])],
    ...defined({ text: bodies === 0 ? d.text ?? '' : undefined, data: d.data?.slice(), edit, recall: d.recall, rel }),
  }
}

/** Half a surrogate has no UTF-8. */
function isText(t: unknown): boolean {
  return typeof t === 'string' && !/[\ud800-\udfff]/u.test(t)
}

function editOf(e: NonNullable<Draft['edit']>): Edit {
  return { target: e.target, type: e.type ?? '', ...defined({ text: e.text, data: e.data?.slice(), rel: e.rel }) }
}

function mentions(r: Relations): boolean {
  return r.mentions.length > 0 || r.mentionAll === true
}

/** What the message has to do with others, which the server must understand. Spec: P-4.10, P-5.8. */
function relOf(d: Draft): Relations | undefined {
  const r: Relations = {
    replyTo: d.replyTo ?? 0, thread: d.thread ?? 0, mentions: [...new Set(d.mentions)].sort(),
    ...defined({ alsoMain: d.alsoMain || undefined, mentionAll: d.mentionAll || undefined, silent: d.silent || undefined, forwardOf: d.forward }),
  }
  return isNothing(r) ? undefined : r
}

/** Whether relations say nothing. */
export function isNothing(r: Relations): boolean {
  return r.replyTo === 0 && r.thread === 0 && !r.alsoMain && !mentions(r) && !r.silent && !r.forwardOf && !r.forwarded
}

/** Fixes what all attempts have in common. A new id says that no earlier attempt was made: then it has an after. Spec: P-4.7. */
function compose(c: Core, draft: Send, newId: boolean): OutgoingState {
  let s = draft
  const peer = c.convs.get(s.conv)?.peer
  if (peer) s = { ...s, conv: '', user: peer } // one lane for a direct conversation
  const id = s.user === '' ? s.conv : c.direct.get(s.user) ?? ''
  if (newId) s = { ...s, after: c.convs.get(id)?.head ?? 0 }
  c.composed++
  const o = enqueue(c, {
    id: s.clientMsgId, composedMs: c.now, n: c.composed, send: s, state: 'sending', conv: id, seq: 0, timeMs: 0,
    safe: false, tried: false, look: false, from: 0, until: 0, stale: false, fresh: false,
  })
  touchOutgoing(c, o)
  return o
}

/** Sends what may go out. */
export function sendAll(c: Core, lv: Live): void {
  const lanes = c.ready
  c.ready = []
  for (const [i, l] of lanes.entries()) {
    l.ready = false
    const { stay, full } = sendLane(c, lv, l)
    if (stay && !l.ready) {
      l.ready = true
      c.ready.push(l)
    }
    if (full) {
      c.ready.push(...lanes.slice(i + 1))
      return
    }
  }
}

/** What follows from looking at a lane. stay: look at it again; full: the window of the connection is full. */
interface Looked {
  readonly stay: boolean
  readonly full: boolean
}

const later: Looked = { stay: true, full: false }
const noMore: Looked = { stay: false, full: false }

/** Sends the first message of a lane. */
function sendLane(c: Core, lv: Live, l: Lane): Looked {
  for (let o = l.queue[0]; o && l.busy === 0; o = l.queue[0]) {
    if (!o.safe) return later
    // Its after comes from what the client knew before the connection, and so does where to
    // look for it. Without an after the server looks up the id.
    if (o.send.after !== undefined && !lv.synced) return later
    if (c.now - o.composedMs > giveUpMs) settle(c, o, 'unknowable', unknowable)
    else if (c.now < l.at) {
      alarmAt(c, l.at)
      return later
    } else if (o.stale && !o.look) {
      giveUp(c, o, refusal('no_target', 'the server went back: the target is gone', { settled: true }))
    } else if (o.fresh) {
      o.fresh = false
      raise(c, o, c.convs.get(target(c, o))?.head ?? 0)
      return later
    } else if (o.look) {
      if (readsFull(lv)) return later
      lookFor(c, lv, o, o.from)
      return noMore
    } else {
      const sent = sendOne(c, lv, l, o)
      if (!sent.stay || sent.full) return sent
    } // it was settled without being sent: the next one must not wait for it
  }
  return noMore
}

/** Whether a message is nothing without the entry that it names. Spec: P-5.3, P-5.10, P-5.12. */
export function aims(o: OutgoingState): boolean {
  const { rel, edit, recall } = o.send
  return rel?.forwardOf !== undefined || (rel?.thread ?? 0) !== 0 || edit !== undefined || recall !== undefined
}

/** The conversation that a message goes to; '' if it is not known. */
export function target(c: Core, o: OutgoingState): string {
  return o.send.user === '' ? o.send.conv : c.direct.get(o.send.user) ?? ''
}

/** Gives a message another after. It is stored before it is sent again. */
export function raise(c: Core, o: OutgoingState, after: number): void {
  o.send = { ...o.send, after }
  storeOutgoing(c, o)
}

/** Sends a message within the window. stay without full: it cannot be sent, and is settled. Spec: P-4.6. */
function sendOne(c: Core, lv: Live, l: Lane, o: OutgoingState): Looked {
  let f: Encoded
  try {
    f = c.encode(clientFrame(lv.nextId + 1, { send: o.send }))
  } catch (why) {
    giveUp(c, o, invalid(String(why)))
    return later
  }
  if (lv.welcome.limits.frameBytes > 0 && f.bytes > lv.welcome.limits.frameBytes) {
    giveUp(c, o, refusal('too_large', `the frame has ${f.bytes} bytes`, { settled: true }))
    return later
  }
  const w = lv.welcome.window
  if (w && lv.sends > 0 && (lv.sends >= w.sends || lv.sendBytes + f.bytes > w.bytes)) return { stay: true, full: true }
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
  return noMore
}
