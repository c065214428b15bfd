import type { Message } from '@petrel-im/sdk'
import type { HistoryView } from '@petrel-im/sdk/history'

/** The first and the last seq of a range. */
export type Range = readonly [number, number]

/** The messages that a person has hidden in a conversation. */
export interface Away {
  readonly clearedTo: number // a seq
  readonly hidden: readonly Range[]
}

/** Whether an entry is hidden from the person, on all their devices. */
export function isAway(seq: number, { clearedTo, hidden }: Away): boolean {
  return seq <= clearedTo || hidden.some(([from, to]) => from <= seq && seq <= to)
}

/** Parses a value of the setting `hidden` into ranges of seqs: 3,7-9 means 3, 7, 8 and 9. Spec: P-8.10. */
export function parseHidden(text: string): readonly Range[] {
  return text === '' ? [] : text.split(',').map((part) => {
    const [from = 0, to = from] = part.split('-').map(Number)
    return [from, to]
  })
}

/** Formats ranges of seqs as a value of the setting. */
export function formatHidden(seqs: readonly Range[]): string {
  const runs: [number, number][] = []
  for (const [from, to] of seqs.toSorted((a, b) => a[0] - b[0])) {
    const run = runs.at(-1)
    if (run && from <= run[1] + 1) run[1] = Math.max(run[1], to)
    else runs.push([from, to])
  }
  return runs.map(([from, to]) => from === to ? from : `${from}-${to}`).join()
}

/** Whether a message is shown in its thread only. Spec: P-5.12. */
export function isBeside(m: Message): boolean {
  return m.rel !== undefined && m.rel.thread > 0 && !m.rel.alsoMain
}

const made = new WeakMap<HistoryView, { readonly away: Away; readonly view: HistoryView }>()

/**
 * Returns the entries of a view that a timeline shows: without those in threads only and the hidden ones. It
 * returns the same object for the same arguments.
 */
export function inTimeline(view: HistoryView, away: Away): HistoryView {
  const old = made.get(view)
  if (old?.away === away) return old.view
  const messages = view.messages.filter((m) => !isBeside(m) && !isAway(m.seq, away))
  const isOldest = view.isOldest || (view.messages[0]?.seq ?? Infinity) <= away.clearedTo
  const one = messages.length === view.messages.length && isOldest === view.isOldest ? view : { ...view, messages, isOldest }
  made.set(view, { away, view: one })
  return one
}

/** Returns how many messages the thread of each root has, by the newest held message of the thread. */
export function repliesOf(held: readonly Message[]): ReadonlyMap<number, number> {
  const replies = new Map<number, number>()
  for (const { rel, threadN } of held) if (rel && rel.thread > 0) replies.set(rel.thread, Math.max(replies.get(rel.thread) ?? 0, threadN))
  return replies
}
