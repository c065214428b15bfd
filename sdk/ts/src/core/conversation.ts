import type { Entry } from './frames.js'
import { offers } from './request.js'
import { storeConv } from './rows.js'
import type { Conv, Core, Slot } from './state.js'

/**
 * The most entries of a conversation that are held back behind a gap. Further ones come again with the history.
 * Spec: S-16.2.
 */
const maxHeld = 256

/** Returns a conversation; adds an unknown one if there is none. */
export function addConv(c: Core, id: string): Conv {
  let v = c.convs.get(id)
  if (!v) {
    v = {
      id, known: false, kind: '', title: '', titleAt: 0, peer: '', peerProfile: '', role: '', left: false, joined: 0, firstSeq: 0,
      head: 0, have: 0, low: 0, before: 0, counted: 0, countedAt: 0, slots: [], window: [], held: new Map(), notes: new Map(), damaged: [], paged: 0, repairAt: 0,
      cursors: {
        read: 0, readCounted: 0, deliveredTo: 0, wantRead: 0, wantDelivered: 0, own: [], receipts: new Map(),
        receiptsGiven: undefined, receiptsCame: 0, moveAt: 0,
      },
      mentions: { seqs: [], to: 0, asked: false }, quotes: { known: new Map(), wanted: new Map(), askAt: 0 },
      shown: { view: undefined, stale: true, list: undefined, former: [] },
    }
    c.convs.set(id, v)
    c.views.sorted = false
    c.changed.list = true
  }
  return v
}

/** Marks a conversation as changed, for the store and for the application. */
export function touch(c: Core, v: Conv): void {
  storeConv(c, v)
  show(c, v)
}

/** Marks the shown state of a conversation as changed. */
export function show(c: Core, v: Conv): void {
  v.shown.stale = true
  c.views.sorted = false
  v.shown.list = undefined
  c.changed.conversations.add(v.id)
}

/** Marks the conversation with this id as changed, even if the client does not know it yet. '' is ignored. */
export function touchId(c: Core, id: string): void {
  if (id === '') return
  const v = c.convs.get(id)
  if (v) show(c, v)
  else c.changed.conversations.add(id)
}

/** Returns the seq below the first entry that the user may read. */
export function floor(v: Conv): number {
  return Math.max(v.joined, v.firstSeq, 1) - 1
}

/**
 * Sets the title as of seq, unless the known one is newer. Pushes and pages arrive in any order, so a page of a
 * sync from before a renaming would otherwise bring the old title back. Spec: S-6.7.
 */
export function retitle(v: Conv, seq: number, title: string): void {
  if (seq < v.titleAt) return
  v.title = title
  v.titleAt = seq
}

/** Raises the head to seq. */
export function raiseHead(v: Conv, seq: number): void {
  v.head = Math.max(v.head, seq)
}

/** Raises the head to seq, and records counted of that entry if it is the newest known one. */
export function heardCounted(v: Conv, seq: number, counted: number): void {
  raiseHead(v, seq)
  if (seq < v.countedAt) return
  v.counted = counted
  v.countedAt = seq
}

/** Returns the index of the first slot at or above seq. */
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

/** Returns the slot of the entry at seq, if the client holds it. */
export function slotAt(v: Conv, seq: number): Slot | undefined {
  const slots = seq > v.low ? v.slots : v.window
  const slot = slots[find(slots, seq)]
  return slot?.entry.seq === seq ? slot : undefined
}

/**
 * Returns counted of the entry at seq, or of the last readable one below it; undefined: the client does not know it.
 */
export function countedOf(v: Conv, seq: number): number | undefined {
  if (seq === 0) return 0
  if (seq === v.countedAt) return v.counted
  return (slotAt(v, seq) ?? (seq <= v.have ? v.slots[find(v.slots, seq) - 1] : undefined))?.entry.counted
}

/** Holds an entry back until the gap before it is closed. Entries beyond maxHeld are dropped. */
export function hold(v: Conv, m: Entry): void {
  if (m.seq > v.have && (v.held.has(m.seq) || v.held.size < maxHeld)) v.held.set(m.seq, m)
}

/** Whether m counts as unread for others. Spec: P-5.1. */
export function counts(m: Entry): boolean {
  if (m.rel && m.rel.thread !== 0 && !m.rel.alsoMain) return false
  return m.text !== undefined || m.data !== undefined || m.recalledBy !== 0 && !m.edit && !m.recall && !m.members && !m.group && !m.inbox
}

/** Whether the missing entries of a conversation are loaded: it is in the focus, or the focus has all. */
export function wanted(c: Core, v: Conv): boolean {
  return !c.focus || !c.live || !offers(c.live, 'focus') || c.focus.convs.includes(v.id)
}

/** Queues a conversation for the request of its missing entries, if it has any and they are wanted. Spec: P-6.7. */
export function repair(c: Core, v: Conv): void {
  const repairs = c.live?.repairs
  if (repairs && !repairs.has(v) && v.known && v.have < v.head && wanted(c, v)) repairs.set(v, false)
}

/** Queues all conversations with missing entries, in the order of their ids. */
export function repairAny(c: Core): void {
  const incomplete = [...c.convs.values()].filter((v) => v.have < v.head)
  for (const v of incomplete.sort((a, b) => (a.id < b.id ? -1 : 1))) repair(c, v)
}
