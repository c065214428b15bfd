import { arrived } from './answer.js'
import type { Core } from './core.js'
import { delivered, prune, takeReceipt } from './cursor.js'
import { fold } from './fold.js'
import type { ConvKind, Entry, Events, Hint, Note, Quote, Range, Receipt, Role } from './frames.js'
import type { Live } from './live.js'
import { stopTyping, takeLossy } from './lossy.js'
import { mention, type Mentions, missMention, takeMentions } from './mention.js'
import { forgetNotes, takeNotes } from './note.js'
import { takePushed } from './personal.js'
import { repair } from './repair.js'
import { entryKey, keep, put } from './rows.js'
import type { Conversation, Message, MessageView } from './snapshot.js'
import { startSync } from './sync.js'

/** Entries held back behind a gap of one conversation; those that do not fit come again by history. Spec: S-16.2. */
const maxHeld = 256

/**
 * One conversation as this client knows it. It holds, without a hole, what the user may read
 * of (low, have]; head is the highest seq heard of. Lists that are read only are shared with
 * rows and snapshots: they are replaced, never changed. Spec: P-6.7.
 */
export interface Conv {
  readonly id: string
  known: boolean // a sync has said what it is
  kind: ConvKind
  title: string
  titleAt: number // the seq up to which the entries have said what the title is
  peer: string
  role: Role
  left: boolean
  joined: number
  firstSeq: number

  head: number
  have: number
  low: number
  before: number // have when the connection began
  counted: number // of the entry countedAt, the highest one of which it is known
  countedAt: number
  slots: Slot[] // of the entries that are held, ascending
  window: Slot[] // of entries below low that somebody reads, ascending; nothing of them is stored
  readonly held: Map<number, Entry> // behind the gap
  readonly notes: Map<number, Note> // by seq
  damaged: readonly Range[] // passed over, oldest first
  paged: number // entries that older pages have added to what is kept
  queued: boolean // in live.missing, or its page is under way
  repairAt: number // not before

  read: number // the user's own cursor, wanted moves included
  readCounted: number // what is counted up to here is not unread: the read cursor, or the beginning of the user's newest stay
  deliveredTo: number
  wantRead: number // not confirmed by the server; 0: nothing wanted
  wantDelivered: number
  own: readonly number[] // counted of the user's own messages that count, above readCounted
  readonly receipts: Map<string, Receipt> // by user
  receiptsGiven: ReadonlyMap<string, Receipt> | undefined // the snapshot of them, if nothing has changed since it was given
  receiptsCame: number
  inMoves: boolean // in core.moves
  moving: boolean // a request is under way
  moveAt: number // the next one is not sent before

  readonly quoted: Map<number, Quote | undefined> // by seq; undefined: the user may not read it
  readonly wanted: Map<number, boolean> // quotes that are not known, by seq; true: asked for
  readonly mentions: Mentions

  view: Conversation | undefined // the snapshot that was given last
  stale: boolean // something has changed since
  list: readonly Message[] | undefined // the snapshot of all entries, if nothing has changed since it was given
  given: readonly Message[] // the one that was given last
}

/** An entry that is held. It is replaced when a later one rewrites it. */
export interface Slot {
  entry: Entry
  view: MessageView | undefined // the snapshot that was given last
}

/** Finds a conversation, or makes one of which nothing is known. */
export function addConv(c: Core, id: string): Conv {
  let v = c.convs.get(id)
  if (!v) {
    v = {
      id, known: false, kind: '', title: '', titleAt: 0, peer: '', role: '', left: false, joined: 0, firstSeq: 0,
      head: 0, have: 0, low: 0, before: 0, counted: 0, countedAt: 0, slots: [], window: [], held: new Map(), notes: new Map(), damaged: [], paged: 0, queued: false, repairAt: 0,
      read: 0, readCounted: 0, deliveredTo: 0, wantRead: 0, wantDelivered: 0, own: [], receipts: new Map(), receiptsGiven: undefined, receiptsCame: 0, inMoves: false, moving: false, moveAt: 0,
      quoted: new Map(), wanted: new Map(), mentions: { seqs: [], to: 0, asked: false }, view: undefined, stale: true, list: undefined, given: [],
    }
    c.convs.set(id, v)
    c.views.sorted = false
    c.changed.list = true
  }
  return v
}

/** Notes that a conversation has changed, for the store and for the application. */
export function touch(c: Core, v: Conv): void {
  c.dirty.add(v)
  show(c, v)
}

/** Notes that what the application sees of a conversation has changed. */
export function show(c: Core, v: Conv): void {
  v.stale = true
  c.views.sorted = false
  v.list = undefined
  c.changed.conversations.add(v.id)
}

/** The same of the conversation with this id, also if there is none yet; '' is none. */
export function touchId(c: Core, id: string): void {
  if (id === '') return
  const v = c.convs.get(id)
  if (v) show(c, v)
  else c.changed.conversations.add(id)
}

/** The highest seq below what may be read. */
export function floor(v: Conv): number {
  return Math.max(v.joined, v.firstSeq, 1) - 1
}

/**
 * Takes the title as it was at seq. Pushes and the pages of syncs and of histories come in any
 * order: without the seq the page of a sync that was read before the group was renamed would
 * bring the old title back for good. Spec: S-6.7.
 */
export function retitle(v: Conv, seq: number, title: string): void {
  if (seq < v.titleAt) return
  v.title = title
  v.titleAt = seq
}

/** Notes the count of an entry. */
export function heardCounted(v: Conv, seq: number, counted: number): void {
  if (seq < v.countedAt) return
  v.counted = counted
  v.countedAt = seq
}

/** The place of the first slot at or above seq. */
export function find(slots: readonly Slot[], seq: number): number {
  let from = 0
  let to = slots.length
  while (from < to) {
    const middle = (from + to) >> 1
    if ((slots[middle]?.entry.seq ?? 0) < seq) from = middle + 1
    else to = middle
  }
  return from
}

/** The slot of the entry at seq, if it is held. */
export function slotAt(v: Conv, seq: number): Slot | undefined {
  const slots = seq > v.low ? v.slots : v.window
  const slot = slots[find(slots, seq)]
  return slot?.entry.seq === seq ? slot : undefined
}

/** counted of the entry at seq, or of the last readable one below it, if the client can tell. */
export function countedOf(v: Conv, seq: number): number | undefined {
  if (seq === 0) return 0
  if (seq === v.countedAt) return v.counted
  return (slotAt(v, seq) ?? (seq <= v.have ? v.slots[find(v.slots, seq) - 1] : undefined))?.entry.counted
}

/** Holds an entry back behind a gap. */
export function hold(v: Conv, m: Entry): void {
  if (m.seq > v.have && (v.held.has(m.seq) || v.held.size < maxHeld)) v.held.set(m.seq, m)
}

/** Applies what was pushed. Spec: P-6.1. */
export function takeEvents(c: Core, lv: Live, ev: Events): void {
  for (const m of ev.messages) {
    if (m.conv === c.meta.inbox) {
      takeInbox(c, lv, m)
      continue
    }
    const v = addConv(c, m.conv)
    takeEntry(c, v, m)
    if (!v.known) startSync(c)
  }
  for (const h of ev.hints) takeHint(c, h)
  for (const r of ev.receipts) takeReceipt(c, r)
  for (const n of ev.notes) {
    const v = c.convs.get(n.conv)
    if (v) takeNotes(c, v, [n])
  }
  takeLossy(c, ev)
}

/** Syncs when the list has changed. Spec: P-8.5. */
function takeInbox(c: Core, lv: Live, m: Entry): void {
  if (m.inbox?.kind === 'list') startSync(c)
  else if (m.inbox?.kind === 'settings') takePushed(c, lv, m.seq, m.inbox.settings)
  else c.changed.account = true
}

/** Notes how far a conversation is that is not pushed whole. Spec: P-6.5. */
export function takeHint(c: Core, h: Hint): void {
  if (h.conv === c.meta.inbox) {
    startSync(c)
    return
  }
  const v = addConv(c, h.conv)
  if (!v.known) startSync(c)
  if (h.head > v.head || h.head > v.countedAt) {
    v.head = Math.max(v.head, h.head)
    heardCounted(v, h.head, h.counted)
    touch(c, v)
  }
  if (h.mentionSeq > 0) missMention(c, v, h.mentionSeq)
  repair(c, v)
}

/** Applies one entry from a push, a sync or an ack. Spec: P-6.7. */
export function takeEntry(c: Core, v: Conv, m: Entry): void {
  stopTyping(c, v, m.from)
  if (m.seq <= v.have && v.known) {
    replace(c, v, m)
    return
  }
  if (!v.known || m.seq > v.have + 1) {
    hear(c, v, m)
    hold(v, m)
    touch(c, v)
    repair(c, v)
    return
  }
  append(c, v, m)
  takeHeld(c, v)
}

/** Takes what follows what is held. */
export function takeHeld(c: Core, v: Conv): void {
  for (let m = v.held.get(v.have + 1); m; m = v.held.get(v.have + 1)) append(c, v, m)
  for (const [seq, m] of v.held) {
    if (seq > v.have) continue
    replace(c, v, m)
    v.held.delete(seq)
  }
}

/** Takes an entry as the next readable one. */
export function append(c: Core, v: Conv, taken: Entry): void {
  const held = v.held.get(taken.seq)
  const m = held && isNewer(held, taken) ? held : taken // a page may have been read before it was edited
  v.held.delete(m.seq)
  v.have = m.seq
  v.slots.push({ entry: m, view: undefined })
  keep(c, v, m)
  fold(c, v, m)
  if (m.profile) {
    retitle(v, m.seq, m.profile.title)
    c.changed.list = true
  }
  if (hear(c, v, m)) {
    dropOldest(c, v, v.slots.length - 1)
    v.window = []
    v.quoted.clear()
    v.damaged = []
  }
  if (m.from === c.meta.user && m.from !== '') {
    countOwn(v, m)
    arrived(c, v.id, m)
  }
  trim(c, v)
  touch(c, v)
  delivered(c, v)
}

/**
 * Notes what an entry says of the conversation, also behind a gap, and tells whether a stay of
 * the user begins with it. Nothing of before is unread then. What is held from before was perhaps
 * edited or recalled while the user was no member: nobody tells, so it is loaded again when the
 * application asks for it. Spec: P-8.7, S-7.11.
 */
function hear(c: Core, v: Conv, m: Entry): boolean | undefined {
  v.head = Math.max(v.head, m.seq)
  heardCounted(v, m.seq, m.counted)
  mention(c, v, m)
  const is = m.members?.added.some(({ user }) => user === c.meta.user)
  if (is) {
    prune(v, m.counted) // m itself does not count
    takeMentions(c, v, [], m.seq)
  }
  return is
}

/** Notes that an entry of the user is not unread. They may come in any order. */
export function countOwn(v: Conv, m: Entry): void {
  if (counts(m) && m.counted > v.readCounted && !v.own.includes(m.counted)) v.own = [...v.own, m.counted]
}

/** Takes the newer copy of an entry that the client has. Spec: P-6.1. */
export function replace(c: Core, v: Conv, m: Entry): void {
  const slot = slotAt(v, m.seq)
  if (!slot) return
  const old = slot.entry
  if (c.live && (old.from !== m.from || old.clientMsgId !== m.clientMsgId)) {
    c.live.back = true // a seq is never used twice
    return
  }
  if (!isNewer(m, old)) return
  slot.entry = m
  keep(c, v, m)
  touch(c, v)
}

/** Which of two copies of an entry is the newer one. */
function isNewer(m: Entry, than: Entry): boolean {
  return Math.max(m.editedBy, m.recalledBy) > Math.max(than.editedBy, than.recalledBy)
}

/** Drops the oldest entries above the bound, many at once. Spec: S-16.1. */
function trim(c: Core, v: Conv): void {
  const bound = c.o.keep + v.paged
  if (v.slots.length <= bound + Math.floor(bound / 8)) return
  dropOldest(c, v, v.slots.length - bound)
}

/** Drops the oldest n entries. */
function dropOldest(c: Core, v: Conv, n: number): void {
  for (const { entry } of v.slots.splice(0, n)) {
    v.low = entry.seq
    put(c, entryKey(v.id, entry.seq), null)
  }
  forgetNotes(v)
}

/** Drops all entries. */
export function dropEntries(c: Core, v: Conv): void {
  dropOldest(c, v, v.slots.length)
  v.window = []
  v.notes.clear()
  v.paged = 0
  v.damaged = []
}

/** Whether m counts as unread by others. Spec: P-5.1. */
export function counts(m: Entry): boolean {
  if (m.rel && m.rel.thread !== 0 && !m.rel.alsoMain) return false
  return m.text !== undefined || m.data !== undefined || m.recalledBy !== 0 && !m.edit && !m.recall && !m.members && !m.profile && !m.inbox
}
