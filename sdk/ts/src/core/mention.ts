import { touch } from './conversation.js'
import { move, prune } from './cursor.js'
import type { Entry } from './frames.js'
import { offers } from './request.js'
import { setting } from './settings.js'
import type { Conv, Core } from './state.js'

/** Whether an entry mentions a user: it names them, or all members. Spec: P-5.13. */
export function mentionsUser(m: Entry, user: string): boolean {
  return m.rel !== undefined && m.from !== user && (m.rel.mentionAll === true || m.rel.mentions.includes(user))
}

/**
 * Replaces the mentions in the entries up to a seq, `to`, by seqs: the server's list, or none. Mentions in later
 * entries stay. A list that ends below the former one is ignored. Spec: P-5.13, S-14.6.
 */
export function takeMentions(c: Core, v: Conv, seqs: readonly number[], to: number): void {
  if (to < v.mentions.to) return
  v.mentions.seqs = ascending([...v.mentions.seqs.filter((q) => q > to), ...seqs])
  v.mentions.to = to
  prune(v)
  touch(c, v)
}

function ascending(seqs: readonly number[]): number[] {
  return [...new Set(seqs)].sort((a, b) => a - b)
}

/** Whether the entry at seq is unread, and it is not known yet whether it mentions the user. */
function mayMention(v: Conv, seq: number): boolean {
  return seq > Math.max(v.cursors.read, v.mentions.to) && !v.mentions.seqs.includes(seq)
}

/** Adds an entry that mentions the user to the mentions, or removes the target of a recall. */
export function mention(c: Core, v: Conv, m: Entry): void {
  const known = v.mentions.seqs
  if (m.recall) {
    const target = m.recall.target
    if (!known.includes(target)) return
    v.mentions.seqs = known.filter((q) => q !== target)
    touch(c, v)
  } else if (mayMention(v, m.seq) && mentionsUser(m, c.meta.user) && !setting(c, '', v.peer, 'first_messages')) {
    v.mentions.seqs = ascending([...known, m.seq])
    touch(c, v)
  }
}

/**
 * Notes that an entry that mentions the user, or recalls such an entry, was not pushed: the server is asked for
 * the list.
 */
export function missMention(c: Core, v: Conv, seq: number): void {
  if (!c.live || !offers(c.live, 'mentions') || !mayMention(v, seq)) return
  v.mentions.asked = true
  move(c, v)
}
