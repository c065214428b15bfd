import { sameFields, sameList } from './change.js'
import { counts, find } from './conversation.js'
import { receiptsOf, unread } from './cursor.js'
import { defined, type Entry, type Signal } from './frames.js'
import { byAge, lanesOf } from './sendlane.js'
import { keptSignals, typists } from './signals.js'
import type { Conversation, Message, Outgoing, Presence, Status, Unread } from './model.js'
import { outgoingView } from './outbox.js'
import { blocked, personal } from './settings.js'
import type { Conv, Core, Slot, Views } from './state.js'
import { countUnread } from './unread.js'

export function newViews(): Views {
  return { list: [], sorted: false, pending: new Map(), signals: [], blocked: [], quotes: new WeakMap() }
}

/** Returns all conversations that the client has heard of, those with the newest messages first. */
export function conversations(c: Core): readonly Conversation[] {
  if (c.views.sorted) return c.views.list
  c.views.sorted = true
  const all = Array.from(c.convs.values(), (v) => snapshot(c, v))
  const at = (s: Conversation): number => s.last?.timeMs ?? 0
  c.views.list = sameList(c.views.list, all.sort((a, b) => at(b) - at(a) || (a.id < b.id ? -1 : 1)))
  return c.views.list
}

/** Returns one conversation, if the client knows it. */
export function conversation(c: Core, id: string): Conversation | undefined {
  const v = c.convs.get(id)
  return v && snapshot(c, v)
}

function snapshot(c: Core, v: Conv): Conversation {
  const old = v.shown.view
  if (old && !v.shown.stale) return old
  const last = lastMessage(c, v)
  v.shown.stale = false
  v.shown.view = sameFields(old, {
    id: v.id, kind: v.kind, title: v.title, peer: v.peer, peerProfile: v.peerProfile, role: v.role, left: v.left, head: v.head, have: v.have,
    unread: unread(v), read: v.cursors.read, known: v.known, receipts: receiptsOf(v),
    typing: sameList(old?.typing ?? [], typists(c, v)), damaged: v.damaged, mentions: v.mentions.seqs,
    personal: sameFields(old?.personal, personal(c, v)), ...defined({ last }),
  })
  return v.shown.view
}

function lastMessage(c: Core, v: Conv): Message | undefined {
  for (let i = v.slots.length - 1; i >= 0; i--) {
    const slot = v.slots[i]
    if (slot && (slot.entry.text || counts(slot.entry))) return message(c, v, slot)
  }
  return undefined
}

/**
 * Returns the held entries of a conversation above the seq `after`, oldest first, at most limit (0: all). The only
 * seqs missing among them are those that the user may not read, and those of Conversation.damaged. Edits and
 * recalls are applied to their targets; they are entries of their own as well.
 */
export function messages(c: Core, conv: string, after = 0, limit = 0): readonly Message[] {
  const v = c.convs.get(conv)
  if (!v) return none
  const whole = after === 0 && limit === 0
  if (whole && v.shown.list) return v.shown.list
  const from = find(v.slots, after + 1)
  const all = v.slots.slice(from, limit > 0 ? from + limit : undefined).map((slot) => message(c, v, slot))
  if (!whole) return all
  v.shown.list = sameList(v.shown.former, all)
  v.shown.former = v.shown.list
  return v.shown.list
}

const none: readonly never[] = []

/**
 * Returns the held entries above the seq `after`, as messages does; undefined: the client does not hold all of
 * them.
 */
export function since(c: Core, conv: string, after: number, limit = 0): readonly Message[] | undefined {
  const v = c.convs.get(conv)
  return v?.known && after >= v.low ? messages(c, conv, after, limit) : undefined
}

/** Returns a held entry as a message. */
export function message(c: Core, v: Conv, slot: Slot): Message {
  const { entry, view } = slot
  const note = v.notes.size === 0 ? undefined : v.notes.get(entry.seq)
  const old = view && view.entry === entry && view.note === note ? view : undefined
  const own = entry.from === c.meta.user
  if (old && (!own || old.receiptsCame === v.cursors.receiptsCame)) return old.message
  let delivered = 0
  let read = 0
  if (own) {
    for (const r of v.cursors.receipts.values()) {
      if (r.delivered >= entry.seq) delivered++
      if (r.read >= entry.seq) read++
    }
  }
  if (old && old.message.delivered === delivered && old.message.read === read) {
    old.receiptsCame = v.cursors.receiptsCame
    return old.message
  }
  const noted = note && entry.recalledBy === 0 ? note : undefined // a recalled entry has no note. Spec: S-9.2
  const one: Message = { ...entry, reactions: noted?.reactions ?? none, pinned: noted?.pinned ?? false, delivered, read }
  slot.view = { entry, note, receiptsCame: v.cursors.receiptsCame, message: one }
  return one
}

/** Returns an entry that the client does not hold as a message. */
export function messageOf(entry: Entry): Message {
  return { ...entry, reactions: none, pinned: false, delivered: 0, read: 0 }
}

/**
 * Whether the entry has a body that this version of the SDK does not know. Show that a newer version of the
 * application can show it, not that it was recalled. Spec: P-2.7, S-4.4.
 */
export function needsNewerVersion(m: Entry): boolean {
  const body = m.text ?? m.data ?? m.edit ?? m.recall ?? m.members ?? m.group ?? m.inbox
  return body === undefined && m.recalledBy === 0 && m.editedBy === 0 && !m.withheld && !m.lost
}

/** Returns the messages to a conversation that are not among its messages yet, oldest first. */
export function pending(c: Core, conv: string): readonly Outgoing[] {
  return pendingOf(c, conv, c.convs.get(conv)?.peer ?? '')
}

/** Returns the pending messages to a user, even before the direct conversation exists. */
export function pendingTo(c: Core, user: string): readonly Outgoing[] {
  return pendingOf(c, c.direct.get(user) ?? '', user)
}

function pendingOf(c: Core, conv: string, peer: string): readonly Outgoing[] {
  const key = `${conv}/${peer}`
  const all = lanesOf(c, conv, peer).flatMap((l) => l.show).sort(byAge).map(outgoingView)
  if (all.length === 0) {
    c.views.pending.delete(key)
    return none
  }
  const given = sameList(c.views.pending.get(key) ?? none, all)
  c.views.pending.set(key, given)
  return given
}

/** Returns a message of the outbox: under way, or settled and still shown. */
export function outgoing(c: Core, id: string): Outgoing | undefined {
  const o = c.outbox.sending.get(id)
  return o && outgoingView(o)
}

/**
 * Returns the newest signals of others, at most a minute old, oldest first: one for each conversation, sender
 * and kind. `typing` signals are not among them: see Conversation.typing.
 */
export function signals(c: Core): readonly Signal[] {
  c.views.signals = sameList(c.views.signals, keptSignals(c).map((x) => x.signal))
  return c.views.signals
}

/** Returns the users that the user blocks, sorted. */
export function blockedUsers(c: Core): readonly string[] {
  c.views.blocked = sameList(c.views.blocked, blocked(c))
  return c.views.blocked
}

/** Returns the state of the connection. */
export function status(c: Core): Status {
  return c.status
}

/** Whether a request can be sent now. */
export function isLive(c: Core): boolean {
  return c.live !== undefined
}

/** Returns the unread counts of all conversations together. */
export function unreadTotal(c: Core): Unread {
  countUnread(c)
  return c.unread.total
}

/** Returns the presence of a watched user; undefined if it is not known, for example without a connection. */
export function presence(c: Core, user: string): Presence | undefined {
  return c.lossy.presence.get(user)
}

/** Returns the direct conversation with a user; '' before its first message. */
export function direct(c: Core, user: string): string {
  return c.direct.get(user) ?? ''
}
