import type { Message } from '@petrel-im/sdk'
import { isShown } from './timelineRows.js'

/** The drawn part of the held entries of a conversation, by seqs. A conversation of 100,000 messages has as many elements as one of 200: drawing is what costs. */
export interface Span {
  readonly from: number // seq
  readonly to: number // seq; Infinity: up to the newest, and what comes
}

/** The held entries: all of them, or a part. */
export interface Held {
  readonly messages: readonly Message[] // oldest first
  readonly isNewest: boolean // nothing is after them
}

export const stepRows = 5 // by which a span grows: so many are drawn at once, and a frame has the time for them
export const sideRows = 40 // on each side of a place, when the view comes to it
const usualRowPx = 60
export const mostRows = 160 // beyond these the other end is cut

/** The index of the first entry whose seq is at least seq. */
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

/** How many rows a chat that opens at the end needs as a rule to fill a window. The others are drawn later, a few at a time. */
export function openingRows(heightPx: number): number {
  return Math.min(sideRows, Math.ceil(heightPx / usualRowPx))
}

/** The newest entries, or those around a seq. */
export function spanAt({ messages, isNewest }: Held, seq = Infinity, rows = sideRows): Span {
  const at = seq === Infinity ? messages.length : indexOf(messages, seq)
  return { from: messages[Math.max(0, at - rows)]?.seq ?? 0, to: end(messages, isNewest, at + rows) }
}

export function slice(messages: readonly Message[], span: Span): readonly Message[] {
  const from = indexOf(messages, span.from)
  return messages.slice(from, span.to === Infinity ? undefined : indexOf(messages, span.to + 1))
}

/** The rows right before and after a span. */
export function besideOf(messages: readonly Message[], span: Span): readonly (Message | undefined)[] {
  let before = indexOf(messages, span.from) - 1
  while (before >= 0 && !isShown(messages[before] as Message)) before--
  let after = span.to === Infinity ? messages.length : indexOf(messages, span.to + 1)
  while (after < messages.length && !isShown(messages[after] as Message)) after++
  return [messages[before], messages[after]]
}

/** The span with more above, and less below if it becomes too long. */
export function up({ messages }: Held, span: Span, rows = stepRows): Span {
  const at = Math.max(0, indexOf(messages, span.from) - rows)
  const last = at + mostRows
  const from = messages[at]?.seq ?? span.from
  return { from, to: last < messages.length - 1 ? Math.min(span.to, messages[last]?.seq ?? Infinity) : span.to }
}

/** The span with more below, and less above if it becomes too long. */
export function down({ messages, isNewest }: Held, span: Span, rows = stepRows): Span {
  const at = span.to === Infinity ? messages.length : indexOf(messages, span.to) + rows
  const first = Math.min(at, messages.length) - mostRows
  return { from: first > 0 ? Math.max(span.from, messages[first]?.seq ?? 0) : span.from, to: end(messages, isNewest, at) }
}

function end(messages: readonly Message[], isNewest: boolean, at: number): number {
  if (at < messages.length) return messages[at]?.seq ?? 0
  return isNewest ? Infinity : messages.at(-1)?.seq ?? 0
}
