import { sameFields } from './change.js'
import { unread } from './cursor.js'
import type { Core, UnreadTotals } from './state.js'

const nothing = { messages: 0, mentions: 0 } as const

export function newUnread(): UnreadTotals {
  return { total: { messages: 0, conversations: 0, mentions: 0 }, by: new Map() }
}

/** Recounts the conversations that have changed since the last turn. */
export function countUnread(c: Core): void {
  const { by, total: before } = c.unread
  let { messages, conversations, mentions } = before
  for (const id of c.changed.conversations) {
    const v = c.convs.get(id)
    const was = by.get(id) ?? nothing
    const now = v ? { messages: unread(v), mentions: v.mentions.seqs.length } : nothing
    messages += now.messages - was.messages
    mentions += now.mentions - was.mentions
    conversations += (now.messages > 0 ? 1 : 0) - (was.messages > 0 ? 1 : 0)
    if (now.messages > 0 || now.mentions > 0) by.set(id, now)
    else by.delete(id)
  }
  c.unread.total = sameFields(before, { messages, conversations, mentions })
  if (c.unread.total === before) return
  c.changed.unread = true
}
