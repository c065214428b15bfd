import type { Message } from '@petrel-im/sdk'
import { isShown } from './timelineRows.js'

/**
 * The part of the held entries that is drawn, as a range of seqs. Drawing is expensive, so a conversation of
 * 100,000 messages has no more elements in the page than one of 200.
 */
export interface Span {
  readonly from: number // seq
  readonly to: number // Infinity: up to the newest entry, and new ones are added
}

/** Entries that the client holds or has loaded, without a gap. */
export interface Held {
  readonly messages: readonly Message[] // oldest first
  readonly isNewest: boolean // the newest entry is among them
}

export const stepRows = 5 // rows by which a span grows: few, so that one frame can draw them
export const sideRows = 40 // rows that are drawn on each side of a place when the view jumps there
const usualRowPx = 60
export const mostRows = 160 // if a span has more rows, its other end is cut

/** Returns the index of the first entry at or after a seq; the number of entries: there is none. */
export function indexOf(messages: readonly Message[], seq: number): number {
  let low = 0
  let high = messages.length
  while (low < high) {
    const mid = (low + high) >>> 1
    if ((messages[mid]?.seq ?? Infinity) < seq) low = mid + 1
    else high = mid
  }
  return low
}

/**
 * Returns how many rows usually fill a window, for a chat that opens at the end. Further ones are drawn later, a
 * few at a time.
 */
export function openingRows(heightPx: number): number {
  return Math.min(sideRows, Math.ceil(heightPx / usualRowPx))
}

/** Returns the span of the newest entries, or of up to `rows` entries on each side of a seq. */
export function spanAt({ messages, isNewest }: Held, seq = Infinity, rows = sideRows): Span {
  const at = seq === Infinity ? messages.length : indexOf(messages, seq)
  return { from: messages[Math.max(0, at - rows)]?.seq ?? 0, to: end(messages, isNewest, at + rows) }
}

export function slice(messages: readonly Message[], span: Span): readonly Message[] {
  const from = indexOf(messages, span.from)
  return messages.slice(from, span.to === Infinity ? undefined : indexOf(messages, span.to + 1))
}

/** Returns the shown entry right before a span and the one right after it. */
export function besideOf(messages: readonly Message[], span: Span): readonly (Message | undefined)[] {
  let before = indexOf(messages, span.from) - 1
  while (before >= 0 && !isShown(messages[before] as Message)) before--
  let after = span.to === Infinity ? messages.length : indexOf(messages, span.to + 1)
  while (after < messages.length && !isShown(messages[after] as Message)) after++
  return [messages[before], messages[after]]
}

/** Returns a span with more rows above, and fewer below if it becomes too long. */
export function up({ messages }: Held, span: Span, rows = stepRows): Span {
  const at = Math.max(0, indexOf(messages, span.from) - rows)
  const last = at + mostRows
  const from = messages[at]?.seq ?? span.from
  return { from, to: last < messages.length - 1 ? Math.min(span.to, messages[last]?.seq ?? Infinity) : span.to }
}

/** Returns a span with more rows below, and fewer above if it becomes too long. */
export function down({ messages, isNewest }: Held, span: Span, rows = stepRows): Span {
  const at = span.to === Infinity ? messages.length : indexOf(messages, span.to) + rows
  const first = Math.min(at, messages.length) - mostRows
  return { from: first > 0 ? Math.max(span.from, messages[first]?.seq ?? 0) : span.from, to: end(messages, isNewest, at) }
}

function end(messages: readonly Message[], isNewest: boolean, at: number): number {
  if (at < messages.length) return messages[at]?.seq ?? 0
  return isNewest ? Infinity : messages.at(-1)?.seq ?? 0
}
