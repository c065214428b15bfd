import { sameFields } from './change.js'
import { saying, utf8Length } from './codec.js'
import { type Failure, invalid, unknowable } from './errors.js'
import { defined, type Edit, type Entry, type Relations, type Send } from './frames.js'
import {
  byAge, enqueue, isFailed, lanesOf, outgoingRow, putOutgoing, release, remove, storeOutgoing, touchOutgoing,
} from './sendlane.js'
import type { Draft, Outgoing, SendState } from './model.js'
import { isNothing, mentions } from './rewrite.js'
import { outgoingKey, put } from './rows.js'
import type { OutgoingRow, Row } from './schema.js'
import type { Conv, Core, Outbox, OutgoingState } from './state.js'

const maxId = 64 // the most bytes of an id, and of a type
const maxFailed = 256 // failed messages that are shown; of more the oldest is discarded. Spec: S-16.2

export function newOutbox(): Outbox {
  return { lanes: new Map(), ready: new Set(), sending: new Map(), sends: true, composed: 0, fresh: [] }
}

/** The outcome of draft. */
export type Drafted =
  | { readonly refused: Failure }
  /** The caller writes row, and then calls kept or lost. Absent: the message was taken before. */
  | { readonly refused?: undefined; readonly outgoing: Outgoing; readonly row?: Row }

/**
 * Takes a message to be sent. It goes out after its row is durable in the store and kept was called.
 * Spec: P-4.9, S-12.1.
 */
export function draft(c: Core, d: Draft): Drafted {
  const s = sendOf(d, c.newId)
  if ('kind' in s) return { refused: s }
  const old = c.outbox.sending.get(s.clientMsgId)
  if (old) {
    if (saying(s) === saying(old.send)) return { outgoing: outgoingView(old) }
    return { refused: invalid('another message has this id', 'conflict') }
  }
  const o = compose(c, s, d.id === undefined)
  return { outgoing: outgoingView(o), row: outgoingRow(o) }
}

/** Lets a message go out: its row is durable in the store. */
export function kept(c: Core, id: string): void {
  const o = c.outbox.sending.get(id)
  if (o) release(c, o)
}

/** Drops a message whose row could not be written: the draft is not taken. Spec: S-17.2. */
export function lost(c: Core, id: string): void {
  const o = c.outbox.sending.get(id)
  if (o) remove(c, o)
}

/**
 * Drops a message, which is then no longer shown: a failed one, or one that waits because of a rate limit, which is
 * certainly not stored. Spec: S-13.10.
 */
export function discard(c: Core, id: string): void {
  const o = c.outbox.sending.get(id)
  if (!o || !isFailed(o) && (o.tried || o.lane.busy > 0 || o.error?.code !== 'rate_limited')) return
  put(c, outgoingKey(id), null)
  remove(c, o)
}

/** Turns a draft into a send that has no `after` yet, or returns why the draft is invalid. Spec: S-12.8. */
function sendOf(d: Draft, newId: () => string): Send | Failure {
  if (!d.conv === !d.user) return invalid('set one of conv and user')
  const bodies = [d.data, d.edit, d.recall, d.forward].filter((b) => b !== undefined).length
  if (bodies > 1 || bodies === 1 && d.text) return invalid('set only one of text, data, edit, recall and forward')
  const texts = [d.conv, d.user, d.id, d.type, d.text, d.edit?.text, d.edit?.type, d.forward?.conv, ...d.mentions ?? []].filter((t) => t !== undefined)
  if (!texts.every(isText)) return invalid('a text has half a surrogate pair') // such a text would end the connection, P-2.4
  if ([d.id, d.type].some((t) => t !== undefined && utf8Length(t) > maxId)) return invalid('an id and a type have at most 64 bytes')
  const seqs = [d.replyTo, d.thread, d.edit?.target, d.recall?.target, d.forward?.seq]
  if (!seqs.every((n) => n === undefined || Number.isSafeInteger(n) && n >= 0)) return invalid('a seq is a whole number of at least 0')
  const edit = d.edit && editOf(d.edit)
  const rel = relOf(d)
  return {
    conv: d.conv ?? '', user: d.user ?? '', clientMsgId: d.id ?? newId(), type: d.type ?? '',
    needs: [...(rel || edit?.rel ? ['rel'] : []), ...(rel && mentions(rel) ? ['mentions'] : [])],
    ...defined({ text: bodies === 0 ? d.text ?? '' : undefined, data: d.data?.slice(), edit, recall: d.recall, rel }),
  }
}

/** Whether t is a text that UTF-8 can encode: half a surrogate pair cannot be. */
function isText(t: unknown): boolean {
  return typeof t === 'string' && !/[\ud800-\udfff]/u.test(t)
}

function editOf(e: NonNullable<Draft['edit']>): Edit {
  return { target: e.target, type: e.type ?? '', ...defined({ text: e.text, data: e.data?.slice(), rel: e.rel }) }
}

/** Returns the relations of a message; the server has to understand them. Spec: P-4.10, P-5.8. */
function relOf(d: Draft): Relations | undefined {
  const r: Relations = {
    replyTo: d.replyTo ?? 0, thread: d.thread ?? 0, mentions: [...new Set(d.mentions)].sort(),
    ...defined({ alsoMain: d.alsoMain || undefined, mentionAll: d.mentionAll || undefined, silent: d.silent || undefined, forwardOf: d.forward }),
  }
  return isNothing(r) ? undefined : r
}

/**
 * Fixes the fields that all attempts share. A random id was never sent before, so such a message gets an `after`.
 * Spec: P-4.7.
 */
function compose(c: Core, draft: Send, newId: boolean): OutgoingState {
  let s = draft
  const peer = c.convs.get(s.conv)?.peer
  if (peer) s = { ...s, conv: '', user: peer } // one lane for a direct conversation
  const id = s.user === '' ? s.conv : c.direct.get(s.user) ?? ''
  if (newId) s = { ...s, after: c.convs.get(id)?.head ?? 0 }
  c.outbox.composed++
  const o = enqueue(c, {
    id: s.clientMsgId, composedMs: c.now, n: c.outbox.composed, send: s, state: 'sending', conv: id, seq: 0, timeMs: 0,
    safe: false, tried: false, look: false, from: 0, until: 0, stale: false, fresh: false,
  })
  touchOutgoing(c, o)
  return o
}

/**
 * Whether a message is meaningless without the entry that it names: a forward, an edit, a recall, or a message
 * of a thread. Spec: P-5.3, P-5.10, P-5.12.
 */
export function aims(o: OutgoingState): boolean {
  const { rel, edit, recall } = o.send
  return rel?.forwardOf !== undefined || (rel?.thread ?? 0) !== 0 || edit !== undefined || recall !== undefined
}

/** Returns the conversation that a message goes to; '' if it is not known. */
export function target(c: Core, o: OutgoingState): string {
  return o.send.user === '' ? o.send.conv : c.direct.get(o.send.user) ?? ''
}

/** Sets the `after` of a message. The message is stored again before it is sent. */
export function setAfter(c: Core, o: OutgoingState, after: number): void {
  o.send = { ...o.send, after }
  storeOutgoing(c, o)
}

/**
 * Ends the sending of a message. The row of a sent message stays until its entry is there, so that a crash in
 * between does not hide it. The row of a failed one stays until it is discarded. Spec: S-13.1, S-13.3.
 */
export function settle(
  c: Core, o: OutgoingState, state: SendState, why = state === 'unknowable' ? unknowable : undefined,
): void {
  o.state = state
  if (why) o.error = why
  else delete o.error
  o.look = false
  o.lane.queue = o.lane.queue.filter((x) => x !== o)
  if (state !== 'sent') putOutgoing(c, o, outgoingRow(o).value)
  c.out.settled.push(outgoingView(o))
  touchOutgoing(c, o)
  const failed = isFailed(o) ? [...c.outbox.sending.values()].filter(isFailed) : []
  if (failed[maxFailed]) discard(c, failed[0]?.id ?? '')
}

/** Settles a message whose outcome another tab has learned. */
export function settledElsewhere(c: Core, { id, conv, seq, timeMs, state, error }: Outgoing): void {
  const o = c.outbox.sending.get(id)
  if (o?.state !== 'sending') return
  Object.assign(o, { conv, seq, timeMs })
  settle(c, o, state, error)
  const v = c.convs.get(conv)
  if (v) passed(c, v)
}

/**
 * Notes that the own message m has become an entry of a conversation: settles it as sent, and drops it from the
 * pending ones. Spec: P-4.7, S-13.7.
 */
export function arrived(c: Core, conv: string, m: Entry): void {
  const o = c.outbox.sending.get(m.clientMsgId)
  if (!o || o.state === 'rejected') return
  if (o.state === 'sending') {
    foundAt(o, conv, m)
    settle(c, o, 'sent')
  }
  remove(c, o)
}

/** Records conversation, seq and time of the entry that a message has become. */
export function foundAt(o: OutgoingState, conv: string, m: Entry): void {
  o.conv = conv
  o.seq = m.seq
  o.timeMs = m.timeMs
}

/** Drops sent messages from the pending ones, once the client has moved past their seqs. */
export function passed(c: Core, v: Conv): void {
  for (const l of lanesOf(c, v.id, v.peer)) {
    for (const o of l.show) if (o.state === 'sent' && o.seq <= v.have) remove(c, o)
  }
}

export function outgoingView(o: OutgoingState): Outgoing {
  const { id, composedMs, state, conv, seq, timeMs, error } = o
  const after = o.send.after
  const draft = o.view && o.sent === o.send ? o.view.draft : draftOf(o)
  o.sent = o.send
  o.view = sameFields(o.view, { id, composedMs, state, conv, seq, timeMs, draft, ...defined({ after, error }) })
  return o.view
}

/** Returns the draft from which the message can be composed again. */
function draftOf(o: OutgoingState): Draft {
  const { conv, user, type, text, data, edit, recall, rel } = o.send
  return {
    ...(user === '' ? { conv } : { user }),
    ...defined({
      type: type || undefined, text: text || undefined, data, edit, recall, replyTo: rel?.replyTo || undefined, thread: rel?.thread || undefined, alsoMain: rel?.alsoMain,
      silent: rel?.silent, mentions: rel?.mentions.length ? rel.mentions : undefined, mentionAll: rel?.mentionAll, forward: rel?.forwardOf,
    }),
  }
}

/**
 * Removes replyTo from a message, because another entry may have that seq now. A message that the server looks
 * up by its id may already be stored as it is, so it stays. Spec: P-6.6, S-15.3.
 */
function dropReplyReference(c: Core, o: OutgoingState): void {
  const { rel, ...bare } = o.send
  if (o.state !== 'sending' || !rel || rel.replyTo === 0 || aims(o) || o.tried && bare.after === undefined) return
  const left = { ...rel, replyTo: 0 }
  const send: Send = isNothing(left) ? bare : { ...bare, rel: left }
  o.send = send
  storeOutgoing(c, o)
}

/** Adapts the messages to a new history id: the seqs in them belong to the former one. Spec: P-6.6, S-15.1. */
export function forgetTargets(c: Core): void {
  const had = c.meta.history !== '' // before its first welcome a client has given no seqs to the application
  for (const o of [...c.outbox.sending.values()].sort(byAge)) {
    if (had) dropReplyReference(c, o)
    if (had && o.state === 'sending' && aims(o)) {
      o.stale = true
      o.look = o.tried
      o.from = 0
      o.until = 0
    } else if (o.state === 'sent') { // its entry was not read back, and now nobody can say whether it exists
      remove(c, o)
      continue
    } else if (o.state !== 'sending' || o.send.after === undefined) continue // without an `after` the server looks up the id
    else if (o.tried) {
      o.look = true
      o.from = 0
      o.until = 0
    } else o.fresh = true
    storeOutgoing(c, o)
  }
}

/**
 * Takes stored messages: those of an earlier process, or of another tab. tried: they may have been sent, so
 * their outcome is unknown.
 */
export function adopt(c: Core, rows: readonly OutgoingRow[], tried = true): void {
  for (const r of [...rows].sort((a, b) => a.n - b.n || a.composedMs - b.composedMs)) {
    if (c.outbox.sending.has(r.send.clientMsgId)) continue
    c.outbox.composed = Math.max(c.outbox.composed + 1, r.n)
    const o = enqueue(c, {
      id: r.send.clientMsgId, composedMs: r.composedMs, n: c.outbox.composed, send: r.send, state: r.state ?? 'sending',
      conv: r.send.conv, seq: 0, timeMs: 0,
      safe: false, tried, look: r.look, from: 0, until: 0, stale: r.stale, fresh: false, ...defined({ error: r.error }),
    })
    if (!r.state) c.outbox.fresh.push(o)
    touchOutgoing(c, o)
    const v = c.convs.get(target(c, o))
    const met = v?.slots.find(({ entry }) => entry.clientMsgId === o.id && entry.from === c.meta.user)
    if (v && met) arrived(c, v.id, met.entry) // this tab has its entry already
  }
}
