import type { Message } from '@petrel-im/sdk'
import { fullDate } from '../i18n/dates.js'
import type { Translation } from '../i18n/index.js'

export const mostSelected = 100 // messages: as many are forwarded, copied or deleted at once

/** Messages that the person has chosen, by their seqs. */
export type Selection = ReadonlyMap<number, Message>

/** Whether a message can be chosen: one that was recalled cannot be forwarded, copied or deleted. */
export function isSelectable(m: Message): boolean {
  return m.recalledBy === 0 && !m.lost && !m.members && !m.group
}

/** The selection with one message more, or less if it was there; it stays as it is where it is full. */
export function toggled(selection: Selection, m: Message): Selection {
  const next = new Map(selection)
  if (!next.delete(m.seq) && next.size < mostSelected && isSelectable(m)) next.set(m.seq, m)
  return next
}

/** The messages of a selection in their order, as they are now: those that were recalled meanwhile have gone. */
export function chosenOf(selection: Selection, held: readonly Message[]): readonly Message[] {
  const now = new Map(held.filter((m) => selection.has(m.seq)).map((m) => [m.seq, m]))
  return [...selection.values()].map((m) => now.get(m.seq) ?? m).filter(isSelectable).sort((a, b) => a.seq - b.seq)
}

/** The texts of several messages for the clipboard, each below who has written it and when; that of one message alone. */
export function textsOf(messages: readonly Message[], nameOf: (user: string) => string, translation: Translation): string {
  const said = messages.filter((m) => m.text !== undefined)
  if (said.length === 1) return said[0]?.text ?? ''
  return said.map((m) => `${nameOf(m.from)}, ${fullDate(m.timeMs, translation)}\n${m.text}`).join('\n\n')
}
