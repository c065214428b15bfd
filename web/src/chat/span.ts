import type { Message } from '@petrel-im/sdk'

/**
 * The part of a conversation that is drawn, by seqs. A conversation of 100,000 messages has as
 * many elements as one of 200: drawing is what costs, not holding.
 */
export interface Span {
  readonly from: number // seq
  readonly to: number // seq; Infinity: up to the newest, and what comes
}

export const stepRows = 40 // by which a span grows
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

/** The newest entries, or those around a seq. */
export function spanAt(messages: readonly Message[], seq = Infinity): Span {
  const at = seq === Infinity ? messages.length : indexOf(messages, seq)
  const from = messages[Math.max(0, at - stepRows)]?.seq ?? 0
  const end = at + stepRows
  return { from, to: end >= messages.length ? Infinity : messages[end]?.seq ?? Infinity }
}

export function slice(messages: readonly Message[], span: Span): readonly Message[] {
  const from = indexOf(messages, span.from)
  return messages.slice(from, span.to === Infinity ? undefined : indexOf(messages, span.to + 1))
}

/** The span with more above, and less below if it becomes too long. */
export function up(messages: readonly Message[], span: Span): Span {
  const at = Math.max(0, indexOf(messages, span.from) - stepRows)
  const last = at + mostRows
  const from = messages[at]?.seq ?? span.from
  return { from, to: last < messages.length - 1 ? Math.min(span.to, messages[last]?.seq ?? Infinity) : span.to }
}

/** The span with more below, and less above if it becomes too long. */
export function down(messages: readonly Message[], span: Span): Span {
  const end = span.to === Infinity ? messages.length : indexOf(messages, span.to) + stepRows
  const to = end >= messages.length ? Infinity : messages[end]?.seq ?? Infinity
  const first = Math.min(end, messages.length) - mostRows
  return { from: first > 0 ? Math.max(span.from, messages[first]?.seq ?? 0) : span.from, to }
}
