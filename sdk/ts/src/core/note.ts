import { show, slotAt } from './conversation.js'
import type { Note } from './frames.js'
import type { Conv, Core } from './state.js'

/**
 * How many notes of a conversation are kept for entries that the client does not hold yet. Further ones come
 * again with the entries. Spec: S-16.2.
 */
const maxNotes = 256

/** Takes notes that the application has requested. */
export function notesCame(c: Core, conv: string, notes: readonly Note[]): void {
  const v = c.convs.get(conv)
  if (v) takeNotes(c, v, notes)
}

/**
 * Takes the notes of a conversation that are newer than the known ones. A page may be older than a push.
 * Spec: P-5.11.
 */
export function takeNotes(c: Core, v: Conv, notes: readonly Note[]): void {
  for (const n of notes) if (takeNote(v, n)) show(c, v)
}

/**
 * Takes a note if it is newer than the known one, and returns whether it did. A note that was made for all
 * members does not say which reactions are the user's own, so those stay. Spec: S-9.1.
 */
function takeNote(v: Conv, n: Note): boolean {
  const old = v.notes.get(n.seq)
  if (n.seq <= v.low && v.known && !slotAt(v, n.seq)) return false
  if (old && (n.version < old.version || n.version === old.version && n.forAll)) return false
  if (!old && n.seq > v.have && v.notes.size >= v.slots.length + maxNotes) return false
  if (n.forAll && old) {
    const mine = new Set(old.reactions.filter((r) => r.mine).map((r) => r.emoji))
    v.notes.set(n.seq, { ...n, reactions: n.reactions.map((r) => ({ ...r, mine: mine.has(r.emoji) })) })
  } else v.notes.set(n.seq, n)
  return true
}

/** Drops the notes of entries that are not held any more. */
export function forgetNotes(v: Conv): void {
  for (const seq of v.notes.keys()) if (seq <= v.low && !slotAt(v, seq)) v.notes.delete(seq)
}
