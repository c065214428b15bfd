import { sameFields, sameList } from './change.js'
import { countedOf, counts, touch } from './conversation.js'
import type { ConvState, Entry, Receipt } from './frames.js'
import { wantSync } from './request.js'
import type { Conv, Core } from './state.js'

/** Applies the cursors from a sync. */
export function mergeCursors(v: Conv, s: ConvState): void {
  v.cursors.read = Math.max(v.cursors.read, s.read)
  prune(v, s.readCounted)
  v.cursors.deliveredTo = Math.max(v.cursors.deliveredTo, s.delivered, v.cursors.read)
  if (s.peerReceipt && v.peer !== '') receipt(v, v.peer, s.peerReceipt)
}

/**
 * Sets readCounted to counted, unless it is higher already: entries up to there are not unread. It drops the
 * own messages and mentions that are read. readCounted never decreases, in whatever order syncs, entries and
 * moves come. Spec: P-8.7.
 */
export function prune(v: Conv, counted = 0): void {
  v.cursors.readCounted = Math.max(v.cursors.readCounted, counted)
  v.cursors.own = v.cursors.own.filter((n) => n > v.cursors.readCounted)
  v.mentions.seqs = sameList(v.mentions.seqs, v.mentions.seqs.filter((q) => q > v.cursors.read))
}

/** Records the cursors of another user. They never move back. Spec: S-14.4. */
export function receipt(v: Conv, user: string, r: Receipt): void {
  const old = v.cursors.receipts.get(user)
  const read = Math.max(old?.read ?? 0, r.read)
  const delivered = Math.max(old?.delivered ?? 0, r.delivered, r.read)
  const now = sameFields(old, { conv: v.id, user, delivered, read })
  if (now === old) return
  v.cursors.receipts.set(user, now)
  v.cursors.receiptsGiven = undefined
  v.cursors.receiptsCame++
}

/** Applies a receipt: of another user, or of another device of this user. */
export function takeReceipt(c: Core, r: Receipt): void {
  const v = c.convs.get(r.conv)
  if (!v) return // the sync that lists the conversation has the newest cursors
  touch(c, v)
  if (r.user !== c.meta.user) {
    receipt(v, r.user, r)
    return
  }
  v.cursors.deliveredTo = Math.max(v.cursors.deliveredTo, r.delivered, r.read)
  if (r.read > v.cursors.read) readTo(c, v, r.read)
}

/** Moves the own read cursor to seq. told: the server already has it there. */
export function readTo(c: Core, v: Conv, seq: number, told = true): void {
  v.cursors.read = seq
  const counted = countedOf(v, seq)
  prune(v, counted)
  if (told && counted === undefined) wantSync(c) // a sync has readCounted
  touch(c, v)
}

/**
 * Moves the delivered cursor over all held entries, unless the option manualDelivered is set, or the newest entry is
 * an own one. Spec: S-14.2.
 */
export function delivered(c: Core, v: Conv): void {
  if (!c.o.manualDelivered && v.slots.at(-1)?.entry.from !== c.meta.user) deliver(c, v, v.have)
}

function deliver(c: Core, v: Conv, seq: number): void {
  if (!(seq > v.cursors.deliveredTo)) return // nor is NaN
  v.cursors.deliveredTo = seq
  v.cursors.wantDelivered = seq
  move(c, v)
}

/** Queues the cursors of a conversation for sending. */
export function move(c: Core, v: Conv): void {
  c.moves.add(v)
}

/** Counts the messages of others that the user has not read. Spec: P-8.7, S-14.5. */
export function unread(v: Conv): number {
  return Math.max(v.counted - v.cursors.readCounted - v.cursors.own.length, 0)
}

/** Moves the own read cursor up to seq, which the person has seen. Spec: S-14.1. */
export function markRead(c: Core, conv: string, seq: number): void {
  const v = c.convs.get(conv)
  if (!v) return
  const to = Math.min(Math.floor(seq), v.head)
  if (!(to > v.cursors.read)) return // nor is NaN
  readTo(c, v, to, false)
  v.cursors.wantRead = to
  move(c, v)
}

/** Moves the delivered cursor to seq, for the application. */
export function markDelivered(c: Core, conv: string, seq: number): void {
  const v = c.convs.get(conv)
  if (v) deliver(c, v, Math.min(Math.floor(seq), v.have))
}

/** Subtracts an own message from the unread count. Entries may come in any order. */
export function countOwn(v: Conv, m: Entry): void {
  const { own, readCounted } = v.cursors
  if (counts(m) && m.counted > readCounted && !own.includes(m.counted)) v.cursors.own = [...own, m.counted]
}

/** Returns the snapshot of the receipts. */
export function receiptsOf(v: Conv): ReadonlyMap<string, Receipt> {
  return v.cursors.receiptsGiven ??= new Map(v.cursors.receipts)
}
