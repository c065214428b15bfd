import { find, floor, show, slotAt } from './conversation.js'
import { reapplyEdits } from './edits.js'
import type { HistoryPage, Range } from './frames.js'
import type { Message } from './model.js'
import { forgetNotes, takeNotes } from './note.js'
import { takeQuotes } from './quote.js'
import { message, messages } from './snapshot.js'
import type { Conv, Core, Slot } from './state.js'

/** The most entries of a window below the kept entries. */
const maxWindow = 600

/**
 * A part of a conversation that a person reads. It has the entries of (from, to] that the user may read, all below
 * the kept entries. If `to` equals `low`, the kept entries continue the window up to the newest one.
 */
export interface Window {
  slots: Slot[] // the same list as Conv.window; another list there means that its entries were dropped
  from: number
  to: number
  low: number // low of the conversation at the last look
  have: number // have of the conversation at the last look
  tail: readonly Slot[] // the kept entries at the last look
  back: boolean // it was last extended to older entries, so cut drops the newest ones
}

/** The ends of a window, where the next pages begin. */
export interface WindowEnds {
  readonly from: number
  readonly to: number
  readonly isOldest: boolean // the user may read no older entry
  readonly isNewest: boolean // the kept entries continue it
  readonly isEmpty: boolean // it has no entries below the kept ones
  readonly fits: boolean // the client keeps fewer entries than its bound
}

export function newWindow(): Window {
  return { slots: [], from: 0, to: 0, low: 0, have: 0, tail: [], back: false }
}

/** Returns the entries of a window, oldest first, and its ends; undefined: the conversation is not known. */
export function windowView(c: Core, conv: string, w: Window): { readonly messages: readonly Message[]; readonly ends: WindowEnds } | undefined {
  const v = c.convs.get(conv)
  if (!v) return undefined
  follow(c, v, w)
  const isNewest = w.to === v.low
  const far = w.slots.map((slot) => message(c, v, slot))
  return {
    messages: isNewest ? far.length > 0 ? [...far, ...messages(c, conv)] : messages(c, conv) : far,
    ends: { from: w.from, to: w.to, isOldest: w.from <= floor(v), isNewest, isEmpty: w.slots.length === 0, fits: v.slots.length < c.o.keep },
  }
}

/** Whether the window shows the entry seq, as its own or as a kept entry that continues it. */
export function inWindow(c: Core, conv: string, w: Window, seq: number): boolean {
  const v = c.convs.get(conv)
  if (!v) return false
  follow(c, v, w)
  return slotAt(v, seq) !== undefined && (seq <= v.low || w.to === v.low)
}

/** Drops the entries of the window: it shows the kept ones again. */
export function emptyWindow(c: Core, conv: string, w: Window): void {
  const v = c.convs.get(conv)
  if (!v) return
  reset(v, w)
  forgetNotes(v)
  show(c, v)
}

/**
 * Puts a page of older entries in front, or skips unreadable ones. `before` is the seq that was asked for. If the
 * window has moved meanwhile, the page is ignored.
 */
export function takeBefore(c: Core, conv: string, w: Window, before: number, page: HistoryPage | Range): void {
  const v = c.convs.get(conv)
  if (!v) return
  follow(c, v, w)
  if (w.from + 1 !== before) return // the window has moved meanwhile
  w.back = true
  if ('messages' in page) {
    const first = page.messages[0]
    w.slots.unshift(...slotsOf(page))
    w.from = page.more && first ? first.seq - 1 : floor(v)
    arrived(c, v, w, page)
  } else if (page.from < before) {
    w.from = Math.max(page.from - 1, floor(v))
    passed(c, v, page)
  }
}

/**
 * Puts a page of newer entries at the end, or skips unreadable ones. `after` is the seq that was asked for. If the
 * window has moved meanwhile, the page is ignored.
 */
export function takeAfter(c: Core, conv: string, w: Window, after: number, page: HistoryPage | Range): void {
  const v = c.convs.get(conv)
  if (!v) return
  follow(c, v, w)
  if (w.to !== after) return
  w.back = false
  if ('messages' in page) {
    w.slots.push(...slotsOf(page))
    w.to = page.more ? page.messages.at(-1)?.seq ?? after : Math.max(after, page.head)
    meet(v, w)
    arrived(c, v, w, page)
  } else if (page.to > after) {
    w.to = page.to
    meet(v, w)
    passed(c, v, page)
  }
}

/** Replaces the content of the window by a page around another seq. */
export function takeAround(c: Core, conv: string, w: Window, page: HistoryPage): void {
  const v = c.convs.get(conv)
  if (!v || page.coveredFrom === 0) return
  reset(v, w)
  w.slots.push(...slotsOf(page))
  w.from = Math.min(page.coveredFrom - 1, v.low)
  w.to = page.more ? page.coveredTo : Math.max(page.coveredTo, page.head)
  meet(v, w)
  arrived(c, v, w, page)
}

function slotsOf(page: HistoryPage): Slot[] {
  return page.messages.map((entry) => ({ entry, view: undefined }))
}

/** If the window reaches the kept entries, removes from it those that the client keeps. */
function meet(v: Conv, w: Window): void {
  if (w.to < v.low) return
  w.slots.splice(find(w.slots, v.low + 1))
  w.to = v.low
}

/** Takes the quotes and notes of a page. Its entries may be older than held edits, which are applied to them. */
function arrived(c: Core, v: Conv, w: Window, page: HistoryPage): void {
  takeQuotes(v, page.refs)
  takeNotes(c, v, page.notes)
  reapplyEdits(c, v)
  cut(v, w)
  show(c, v)
}

/** Adds a range that the server cannot read to the damaged ones. Spec: S-7.7. */
function passed(c: Core, v: Conv, damage: Range): void {
  if (!v.damaged.some((d) => d.from <= damage.from && d.to >= damage.to)) v.damaged = [...v.damaged, damage].sort((a, b) => a.from - b.from)
  show(c, v)
}

/** Drops entries above the bound, at the end that was not extended last. */
function cut(v: Conv, w: Window): void {
  const over = w.slots.length - maxWindow
  if (over <= 0) return
  if (w.back) w.slots.length = maxWindow
  else w.from = w.slots.splice(0, over).at(-1)?.entry.seq ?? w.from
  if (w.back) w.to = w.slots.at(-1)?.entry.seq ?? w.to
  forgetNotes(v)
}

/**
 * Adapts the window to changes of the kept entries. Entries that are not kept any more move into the window;
 * entries that are kept now leave it.
 */
function follow(c: Core, v: Conv, w: Window): void {
  if (v.window !== w.slots) reset(v, w) // the entries were dropped: the history id changed, or too many entries were missed
  const joined = w.to === w.low
  const lost = joined && v.low > w.low
  if (lost && w.have < v.low) reset(v, w) // entries came and were dropped between two looks
  else if (lost) {
    for (const slot of w.tail) if (slot.entry.seq <= v.low) w.slots.push(slot)
    w.to = v.low
    reapplyEdits(c, v)
    cut(v, w)
  } else if (joined || w.to > v.low) {
    w.from = Math.min(w.from, v.low)
    w.to = Math.max(w.to, v.low)
    meet(v, w)
  }
  Object.assign(w, { low: v.low, have: v.have, tail: v.slots.slice() })
}

/** Makes the window empty, so that it shows the kept entries. */
function reset(v: Conv, w: Window): void {
  v.window = w.slots = []
  Object.assign(w, { from: v.low, to: v.low, low: v.low })
}
