import type { Message } from '@petrel-im/sdk'
import type { HistoryView } from '@petrel-im/sdk/history'

/** What a person has put out of their own sight in a conversation. */
export interface Away {
  readonly clearedTo: number // a seq
  readonly hidden: ReadonlySet<number> // seqs
}

/** Whether the person sees nothing of an entry any more, on any of their devices. */
export function isAway(seq: number, { clearedTo, hidden }: Away): boolean {
  return seq <= clearedTo || hidden.has(seq)
}

/** Whether a message shows in its thread only. Spec: P-5.12. */
export function isBeside(m: Message): boolean {
  return m.rel !== undefined && m.rel.thread > 0 && !m.rel.alsoMain
}

const made = new WeakMap<HistoryView, { readonly away: Away; readonly view: HistoryView }>()

/** What a timeline shows of a part of the history: the same object while both are the same. */
export function inTimeline(view: HistoryView, away: Away): HistoryView {
  const old = made.get(view)
  if (old?.away === away) return old.view
  const messages = view.messages.filter((m) => !isBeside(m) && !isAway(m.seq, away))
  const isOldest = view.isOldest || (view.messages[0]?.seq ?? Infinity) <= away.clearedTo
  const one = messages.length === view.messages.length && isOldest === view.isOldest ? view : { ...view, messages, isOldest }
  made.set(view, { away, view: one })
  return one
}

/** How many messages the thread of each root has, by the newest of them that is held. */
export function repliesOf(held: readonly Message[]): ReadonlyMap<number, number> {
  const replies = new Map<number, number>()
  for (const { rel, threadN } of held) if (rel && rel.thread > 0) replies.set(rel.thread, Math.max(replies.get(rel.thread) ?? 0, threadN))
  return replies
}
