import { find, floor, show, slotAt } from './conversation.js'
import { refold } from './edits.js'
import type { HistoryPage, Range } from './frames.js'
import type { Message } from './model.js'
import { forgetNotes, takeNotes } from './note.js'
import { takeQuotes } from './quote.js'
import { message, messages } from './snapshot.js'
import type { Conv, Core, Slot } from './state.js'

/** The most entries of a window, beside those that the client keeps. */
const maxWindow = 600

/**
 * A part of a conversation that a person reads. It has the entries of (from, to] that the user may read, below those that the client keeps. Where to
 * is low, the window includes the kept entries, and follows them to the newest one.
 */
export interface Window {
  slots: Slot[] // those of Conv.window, while nothing has dropped them
  from: number
  to: number
  low: number // of the conversation, when the window looked at it last
  have: number // the same
  tail: readonly Slot[] // what the client kept then
  back: boolean // it was extended to the front last: what is too much goes at its other end
}

/** Where a window ends: the next page is asked from there. */
export interface WindowEnds {
  readonly from: number
  readonly to: number
  readonly isOldest: boolean // nothing that the user may read is before it
  readonly isNewest: boolean // it follows the conversation
  readonly isEmpty: boolean // it has only what the client keeps
  readonly fits: boolean // older entries still fit among those that the client keeps
}

export function newWindow(): Window {
  return { slots: [], from: 0, to: 0, low: 0, have: 0, tail: [], back: false }
}

/** The entries of a window, oldest first, and its ends; undefined: the conversation is not known. */
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

/** Whether the entry seq is in the window. */
export function inWindow(c: Core, conv: string, w: Window, seq: number): boolean {
  const v = c.convs.get(conv)
  if (!v) return false
  follow(c, v, w)
  return slotAt(v, seq) !== undefined && (seq <= v.low || w.to === v.low)
}

/** Goes back to the kept entries. */
export function emptyWindow(c: Core, conv: string, w: Window): void {
  const v = c.convs.get(conv)
  if (!v) return
  reset(v, w)
  forgetNotes(v)
  show(c, v)
}

/** Puts the page that was asked for before w.from + 1 in front, or passes over damage. */
export function takeBefore(c: Core, conv: string, w: Window, before: number, page: HistoryPage | Range): void {
  const v = c.convs.get(conv)
  if (!v) return
  follow(c, v, w)
  if (w.from + 1 !== before) return // it has moved meanwhile
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

/** Puts the page that was asked for after w.to at the end, or passes over damage. */
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

/** Replaces the content of the window by a page from elsewhere. */
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

/** Leaves entries that the client keeps to the client. */
function meet(v: Conv, w: Window): void {
  if (w.to < v.low) return
  w.slots.splice(find(w.slots, v.low + 1))
  w.to = v.low
}

/** Takes the quotes and notes of a page. It can be older than later changes of its entries. */
function arrived(c: Core, v: Conv, w: Window, page: HistoryPage): void {
  takeQuotes(v, page.refs)
  takeNotes(c, v, page.notes)
  refold(c, v)
  cut(v, w)
  show(c, v)
}

/** Names entries that the server cannot read. Spec: S-7.7. */
function passed(c: Core, v: Conv, damage: Range): void {
  if (!v.damaged.some((d) => d.from <= damage.from && d.to >= damage.to)) v.damaged = [...v.damaged, damage].sort((a, b) => a.from - b.from)
  show(c, v)
}

/** Keeps the bound. */
function cut(v: Conv, w: Window): void {
  const over = w.slots.length - maxWindow
  if (over <= 0) return
  if (w.back) w.slots.length = maxWindow
  else w.from = w.slots.splice(0, over).at(-1)?.entry.seq ?? w.from
  if (w.back) w.to = w.slots.at(-1)?.entry.seq ?? w.to
  forgetNotes(v)
}

/**
 * Keeps the window together with what the client keeps. That has lost its oldest entries, which
 * stay here, or has got older ones, which are not needed here any more.
 */
function follow(c: Core, v: Conv, w: Window): void {
  if (v.window !== w.slots) reset(v, w) // all was dropped: another history, or too much was missed
  const joined = w.to === w.low
  const lost = joined && v.low > w.low
  if (lost && w.have < v.low) reset(v, w) // some of it was never seen here
  else if (lost) {
    for (const slot of w.tail) if (slot.entry.seq <= v.low) w.slots.push(slot)
    w.to = v.low
    refold(c, v)
    cut(v, w)
  } else if (joined || w.to > v.low) {
    w.from = Math.min(w.from, v.low)
    w.to = Math.max(w.to, v.low)
    meet(v, w)
  }
  Object.assign(w, { low: v.low, have: v.have, tail: v.slots.slice() })
}

/** Makes the window empty: it follows what the client keeps. */
function reset(v: Conv, w: Window): void {
  v.window = w.slots = []
  Object.assign(w, { from: v.low, to: v.low, low: v.low })
}
