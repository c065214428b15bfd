import { type Conv, countedOf, takeHint, touch } from './conversation.js'
import { alarmAt, type Core } from './core.js'
import type { ConvState, Receipt, SetFocus } from './frames.js'
import { ask, type Live, offers, retryAt } from './live.js'
import { takeMentions } from './mention.js'
import { repairAny } from './repair.js'
import { sameFields, sameList } from './snapshot.js'
import { startSync } from './sync.js'

const moveEveryMs = 1000 // the cursors of one conversation. Spec: P-8.6
const maxMoves = 3 // cursor requests under way

/** Applies what a sync says of the cursors. */
export function mergeCursors(v: Conv, s: ConvState): void {
  v.read = Math.max(v.read, s.read)
  prune(v, s.readCounted)
  v.deliveredTo = Math.max(v.deliveredTo, s.delivered, v.read)
  if (s.peerReceipt && v.peer !== '') receipt(v, v.peer, s.peerReceipt)
}

/**
 * Forgets what is read. Nothing up to counted is unread. That never goes back, in whatever
 * order syncs, entries and moves come. Spec: P-8.7.
 */
export function prune(v: Conv, counted = 0): void {
  v.readCounted = Math.max(v.readCounted, counted)
  v.own = v.own.filter((n) => n > v.readCounted)
  v.mentions.seqs = sameList(v.mentions.seqs, v.mentions.seqs.filter((q) => q > v.read))
}

/** Notes how far another user is. Their cursors only move forward. Spec: S-14.4. */
export function receipt(v: Conv, user: string, r: Receipt): void {
  const old = v.receipts.get(user)
  const read = Math.max(old?.read ?? 0, r.read)
  const delivered = Math.max(old?.delivered ?? 0, r.delivered, r.read)
  const now = sameFields(old, { conv: v.id, user, delivered, read })
  if (now === old) return
  v.receipts.set(user, now)
  v.receiptsGiven = undefined
  v.receiptsCame++
}

/** Applies a move that somebody, perhaps another device of the user, has made. */
export function takeReceipt(c: Core, r: Receipt): void {
  const v = c.convs.get(r.conv)
  if (!v) return // the sync that tells of the conversation has the newest
  touch(c, v)
  if (r.user !== c.meta.user) {
    receipt(v, r.user, r)
    return
  }
  v.deliveredTo = Math.max(v.deliveredTo, r.delivered, r.read)
  if (r.read > v.read) readTo(c, v, r.read)
}

/** Moves the own read cursor as the client shows it. told: the server has it there. */
function readTo(c: Core, v: Conv, seq: number, told = true): void {
  v.read = seq
  const counted = countedOf(v, seq)
  prune(v, counted)
  if (told && counted === undefined) startSync(c) // the sync has the count
  touch(c, v)
}

/** Tells as delivered what the client holds, unless the application does. Spec: S-14.2. */
export function delivered(c: Core, v: Conv): void {
  if (!c.o.manualDelivered && v.slots.at(-1)?.entry.from !== c.meta.user) deliver(c, v, v.have)
}

function deliver(c: Core, v: Conv, seq: number): void {
  if (!(seq > v.deliveredTo)) return // nor is NaN
  v.deliveredTo = seq
  v.wantDelivered = seq
  move(c, v)
}

/** Has the cursors of a conversation sent when they are due. */
export function move(c: Core, v: Conv): void {
  if (v.inMoves) return
  v.inMoves = true
  c.moves.push(v)
}

/** Sends the cursors that are due. */
export function moveAll(c: Core, lv: Live): void {
  if (c.moves.length === 0 || !offers(lv, 'cursor') || !lv.synced) return
  const all = c.moves
  c.moves = []
  for (const [i, v] of all.entries()) {
    if (lv.moving >= maxMoves) {
      c.moves.push(...all.slice(i))
      break
    }
    if (!wantsMove(v)) v.inMoves = false
    else if (v.moving) c.moves.push(v)
    else if (c.now < v.moveAt) {
      alarmAt(c, v.moveAt)
      c.moves.push(v)
    } else {
      v.inMoves = false
      v.moveAt = c.now + moveEveryMs
      askMove(c, lv, v)
    }
  }
}

/** Whether there is a cursor to be sent. */
function wantsMove(v: Conv): boolean {
  return v.wantRead !== 0 || v.wantDelivered !== 0 || v.mentions.asked
}

function askMove(c: Core, lv: Live, v: Conv): void {
  lv.moving++
  v.moving = true
  const { asked } = v.mentions
  v.mentions.asked = false
  const q = { conv: v.id, delivered: v.wantDelivered, read: v.wantRead }
  ask(c, lv, { cursor: q }, (f) => {
    lv.moving--
    v.moving = false
    const retry = f?.kind === 'error' && f.error.retryable
    if (f?.kind === 'cursor' || f?.kind === 'error' && !retry) { // stored, or it never will be
      if (v.wantRead <= q.read) v.wantRead = 0
      if (v.wantDelivered <= q.delivered) v.wantDelivered = 0
      c.dirty.add(v)
    } else if (f?.kind === 'error') v.moveAt = retryAt(c, f.error)
    if (f?.kind === 'cursor') {
      // What another device has read no receipt tells who has asked at the same time. Of what this one has read the count may be missing.
      if (f.cursor.read > v.read || q.read > 0 && f.cursor.read === v.read) readTo(c, v, f.cursor.read)
      if (f.cursor.head > 0) takeMentions(c, v, f.cursor.mentions, f.cursor.head)
    }
    if (!f || retry) v.mentions.asked ||= asked
    if (wantsMove(v)) move(c, v)
  })
}

/** How many messages of others the user has not read. Spec: P-8.7, S-14.5. */
export function unread(v: Conv): number {
  return Math.max(v.counted - v.readCounted - v.own.length, 0)
}

/** Moves the own read cursor up to seq, which the person has seen. Spec: S-14.1. */
export function markRead(c: Core, conv: string, seq: number): void {
  const v = c.convs.get(conv)
  if (!v) return
  const to = Math.min(Math.floor(seq), v.head)
  if (!(to > v.read)) return // nor is NaN
  readTo(c, v, to, false)
  v.wantRead = to
  move(c, v)
}

/** Tells that this device holds the entries up to seq. */
export function markDelivered(c: Core, conv: string, seq: number): void {
  const v = c.convs.get(conv)
  if (v) deliver(c, v, Math.min(Math.floor(seq), v.have))
}

/** Names the conversations whose entries are wanted at once; absent: all. Spec: S-8.1. */
export function setFocus(c: Core, convs?: readonly string[]): void {
  c.focus = convs && { convs: [...convs] }
  sendFocus(c)
  repairAny(c)
}

const elsewhere: SetFocus = { convs: [] } // not one that the application has set

/** Tells the server the focus, unless it knows. */
export function sendFocus(c: Core): void {
  const lv = c.live
  if (!lv || lv.focused === c.focus || !offers(lv, 'focus')) return
  lv.focused = c.focus
  ask(c, lv, { focus: c.focus ?? { convs: [], all: true } }, (f) => {
    if (f?.kind === 'focus') for (const h of f.focus.heads) takeHint(c, h)
    if (f?.kind !== 'error' || !f.error.retryable) return
    lv.focused = elsewhere
    lv.focusAt = retryAt(c, f.error)
  })
}

/** Whether the entries of a conversation are to be loaded when they are missing. */
export function wanted(c: Core, v: Conv): boolean {
  return !c.focus || !c.live || !offers(c.live, 'focus') || c.focus.convs.includes(v.id)
}
