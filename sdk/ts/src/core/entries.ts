import { heardCounted, hold, repair, retitle, slotAt, touch } from './conversation.js'
import { countOwn, delivered, prune } from './cursor.js'
import { applyEdit } from './edits.js'
import type { Entry } from './frames.js'
import { stopTyping } from './signals.js'
import { mention, takeMentions } from './mention.js'
import { forgetNotes } from './note.js'
import { arrived } from './outbox.js'
import { dropQuotes } from './quote.js'
import { entryKey, keep, put } from './rows.js'
import type { Conv, Core } from './state.js'

/** Applies an entry from a push, a sync or an ack. Spec: P-6.7. */
export function takeEntry(c: Core, v: Conv, m: Entry): void {
  stopTyping(c, v, m.from)
  if (m.seq <= v.have && v.known) {
    replace(c, v, m)
    return
  }
  if (!v.known || m.seq > v.have + 1) {
    recordEntry(c, v, m)
    hold(v, m)
    touch(c, v)
    repair(c, v)
    return
  }
  append(c, v, m)
  takeHeld(c, v)
}

/** Appends the entries that were held back and now follow without a gap. */
export function takeHeld(c: Core, v: Conv): void {
  for (let m = v.held.get(v.have + 1); m; m = v.held.get(v.have + 1)) append(c, v, m)
  for (const [seq, m] of v.held) {
    if (seq > v.have) continue
    replace(c, v, m)
    v.held.delete(seq)
  }
}

/** Appends an entry as the next readable one. */
export function append(c: Core, v: Conv, taken: Entry): void {
  const held = v.held.get(taken.seq)
  const m = held && isNewer(held, taken) ? held : taken // the page may have been read before an edit that was pushed
  v.held.delete(m.seq)
  v.have = m.seq
  v.slots.push({ entry: m, view: undefined })
  keep(c, v, m)
  applyEdit(c, v, m)
  if (m.group) {
    retitle(v, m.seq, m.group.title)
    c.changed.list = true
  }
  if (recordEntry(c, v, m)) {
    dropOldest(c, v, v.slots.length - 1)
    v.window = []
    dropQuotes(v)
    v.damaged = []
  }
  if (m.from === c.meta.user && m.from !== '') {
    countOwn(v, m)
    arrived(c, v.id, m)
  }
  trim(c, v)
  touch(c, v)
  delivered(c, v)
}

/**
 * Records what an entry, even one behind a gap, shows of its conversation. It returns whether a stay of the
 * user begins with the entry. Then nothing before it is unread. Older held entries may have been edited or
 * recalled without a push while the user was no member, so the caller drops them, and they are loaded again
 * when the application asks for them. Spec: P-8.7, S-7.11.
 */
function recordEntry(c: Core, v: Conv, m: Entry): boolean | undefined {
  heardCounted(v, m.seq, m.counted)
  mention(c, v, m)
  const is = m.members?.added.some(({ user }) => user === c.meta.user)
  if (is) {
    prune(v, m.counted) // m itself does not count
    takeMentions(c, v, [], m.seq)
  }
  return is
}

/**
 * Replaces the held copy of an entry by m, if m is newer. If the server has another entry in its place, the server
 * has gone back to an earlier state, and the next step drops all copies. Spec: P-6.1, P-6.8.
 */
export function replace(c: Core, v: Conv, m: Entry): void {
  const slot = slotAt(v, m.seq)
  if (!slot) return
  const old = slot.entry
  if (c.live && (old.from !== m.from || old.clientMsgId !== m.clientMsgId)) {
    c.live.back = true // a seq is never used twice
    return
  }
  if (!isNewer(m, old)) return
  slot.entry = m
  keep(c, v, m)
  touch(c, v)
}

/** Whether m is a newer copy of an entry than the other one. */
function isNewer(m: Entry, than: Entry): boolean {
  return Math.max(m.editedBy, m.recalledBy) > Math.max(than.editedBy, than.recalledBy)
}

/** Drops the oldest entries down to the bound, once there are more than an eighth above it. Spec: S-16.1. */
function trim(c: Core, v: Conv): void {
  const bound = c.o.keep + v.paged
  if (v.slots.length <= bound + Math.floor(bound / 8)) return
  dropOldest(c, v, v.slots.length - bound)
}

/** Drops the oldest n entries. */
function dropOldest(c: Core, v: Conv, n: number): void {
  for (const { entry } of v.slots.splice(0, n)) {
    v.low = entry.seq
    put(c, entryKey(v.id, entry.seq), null)
  }
  forgetNotes(v)
}

/** Drops all entries of a conversation, with their notes. */
export function dropEntries(c: Core, v: Conv): void {
  dropOldest(c, v, v.slots.length)
  v.window = []
  v.notes.clear()
  v.paged = 0
  v.damaged = []
}
