import type { Message } from '@petrel-im/sdk'
import { fullDate } from '../i18n/dates.js'
import type { Translation } from '../i18n/index.js'

export const mostSelected = 100 // the most messages that are forwarded, copied or hidden at once

/** The messages that the person has selected, by seq. */
export type Selection = ReadonlyMap<number, Message>

/** Whether an entry can be selected. Recalled messages, lost entries and events of the group cannot. */
export function isSelectable(m: Message): boolean {
  return m.recalledBy === 0 && !m.lost && !m.members && !m.group
}

/** Returns the selection with a message added, or removed if it was selected. A full selection takes no more. */
export function toggled(selection: Selection, m: Message): Selection {
  const next = new Map(selection)
  if (!next.delete(m.seq) && next.size < mostSelected && isSelectable(m)) next.set(m.seq, m)
  return next
}

/** Returns the selected messages in order, in their present state. Messages that were recalled since are left out. */
export function chosenOf(selection: Selection, held: readonly Message[]): readonly Message[] {
  const now = new Map(held.filter((m) => selection.has(m.seq)).map((m) => [m.seq, m]))
  return [...selection.values()].map((m) => now.get(m.seq) ?? m).filter(isSelectable).sort((a, b) => a.seq - b.seq)
}

/**
 * Returns the texts of messages for the clipboard, each below its author and time; for one message the text alone.
 */
export function textsOf(messages: readonly Message[], nameOf: (user: string) => string, translation: Translation): string {
  const said = messages.filter((m) => m.text !== undefined)
  if (said.length === 1) return said[0]?.text ?? ''
  return said.map((m) => `${nameOf(m.from)}, ${fullDate(m.timeMs, translation)}\n${m.text}`).join('\n\n')
}
