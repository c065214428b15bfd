import { type Conv, counts, find, type Slot } from './conversation.js'
import type { Core, Status } from './core.js'
import { unread } from './cursor.js'
import type { Failure } from './errors.js'
import { type ConvKind, defined, type Entry, type Note, type Quote, type Range, type Reaction, type Recall, type Receipt, type Ref, type Relations, type Role, type Signal } from './frames.js'
import { byAge, lanesOf, type OutgoingState } from './lane.js'
import { keptSignals, type Presence, typists } from './lossy.js'
import { blocked, personal, type Personal } from './personal.js'
import { countUnread, type Unread } from './unread.js'

// What the application sees. A snapshot does not change any more once it is given, and what
// has not changed is the same object again. Spec: S-18.3.

/** What the client knows of a conversation, at one moment. */
export interface Conversation {
  readonly id: string
  readonly kind: ConvKind
  /** Of a group; '' of a direct conversation. */
  readonly title: string
  /** The other user of a direct conversation; '' of a group. */
  readonly peer: string
  readonly role: Role
  /** The user is no member any more. */
  readonly left: boolean
  /** The highest seq of the conversation that the client has heard of. */
  readonly head: number
  /** The client holds what the user may read up to this seq; below head: more is coming. */
  readonly have: number
  /** How many messages of others above `read` there are, those of threads left out. Spec: P-8.7. */
  readonly unread: number
  /** The user's own read cursor, a seq: markRead moves it. */
  readonly read: number
  /** false: the server has not said yet what it is. */
  readonly known: boolean
  /** The newest message with a text or data that the client holds, also one of a thread. */
  readonly last?: Message
  /** How far other users are, by user, as far as is known: loadReceipts asks for those of a group. */
  readonly receipts: ReadonlyMap<string, Receipt>
  /** Others who are typing now, sorted. */
  readonly typing: readonly string[]
  /**
   * Entries that the server cannot read at present, oldest first: holes among the messages.
   * An operator has to repair the store. Spec: P-9.5.
   */
  readonly damaged: readonly Range[]
  /** Seqs of unread messages that mention the user, ascending; of very many the oldest. */
  readonly mentions: readonly number[]
  /** What the user has set of the conversation. */
  readonly personal: Personal
}

/** An entry of a conversation with what members have made of it. */
export interface Message extends Entry {
  readonly reactions: readonly Reaction[]
  /** For all members. */
  readonly pinned: boolean
  /** Of the user's own messages: how many others are known to hold it. */
  readonly delivered: number
  /** Of the user's own messages: how many others are known to have read it. */
  readonly read: number
}

/** A new body for an earlier message. One of text and data is set. */
export interface EditDraft {
  /** Seq of the entry. */
  readonly target: number
  readonly type?: string
  readonly text?: string
  readonly data?: Uint8Array
  /** Absent: those of the target stay. */
  readonly rel?: Relations
}

/** A message to be sent. One of conv and user is set, and one body: text, data, edit, recall or forward. Without any it is an empty text. */
export interface Draft {
  /** Conversation id. */
  readonly conv?: string
  /** User id: for the direct conversation with them, which need not exist. */
  readonly user?: string
  /**
   * The client message id; absent: made at random. An application that gives its own may
   * send the same draft again, from another process too: it is stored once. That costs the
   * server a look-up.
   */
  readonly id?: string
  /** Kind of text or data, at most 64 bytes; absent means "text". */
  readonly type?: string
  readonly text?: string
  readonly data?: Uint8Array
  readonly edit?: EditDraft
  readonly recall?: Recall
  /** Seq of the entry that the message answers. */
  readonly replyTo?: number
  /** Nobody is to be disturbed by the message. */
  readonly silent?: boolean
  /**
   * The seq of the message to whose thread this one belongs. Such a message does not count
   * as unread unless it has alsoMain. Spec: P-5.12.
   */
  readonly thread?: number
  /** A message of a thread is to be shown among the others as well. */
  readonly alsoMain?: boolean
  /** Users whom the message is meant for in particular, at most 50, in any order. Spec: P-5.13. */
  readonly mentions?: readonly string[]
  /** It is meant for all members, which in a group only admins and the owner may say. */
  readonly mentionAll?: boolean
  /** A message to copy: the server fills in what it says and whose it is. Spec: P-5.10. */
  readonly forward?: Ref
}

/**
 * sending: queued, sent, or of unknown outcome: neither sent nor failed. sent: stored for
 * ever, with a seq. rejected: not stored, and never will be. unknowable: nobody can tell any
 * more. Spec: P-4.9.
 */
export type SendState = 'sending' | 'sent' | 'rejected' | 'unknowable'

/** A message on its way, at one moment. */
export interface Outgoing {
  /** Client message id. */
  readonly id: string
  /** When it was composed, by the clock of this device, in Unix ms. */
  readonly composedMs: number
  readonly state: SendState
  /** Conversation id; '' until it is known. */
  readonly conv: string
  /** Its number in the conversation; 0 until it is sent. */
  readonly seq: number
  /** When the server stored it, by its clock, in Unix ms; 0 until it is sent. */
  readonly timeMs: number
  /** The head that this client knew when the message was composed. Spec: P-4.7. */
  readonly after?: number
  /** What is sent, without its id: send it again after a rejection, if the person wants. */
  readonly draft: Draft
  /** Why it is rejected; while it is sending, why the server has put it off. */
  readonly error?: Failure
}

/** Snapshots that were given, to give the same ones again. */
export interface Views {
  list: readonly Conversation[]
  sorted: boolean // list is up to date
  readonly pending: Map<string, readonly Outgoing[]>
  signals: readonly Signal[]
  blocked: readonly string[]
  readonly quotes: WeakMap<Entry, Quote>
}

/** The snapshot of an entry, and what it was made of. */
export interface MessageView {
  readonly entry: Entry
  readonly note: Note | undefined
  receiptsCame: number
  readonly message: Message
}

export function newViews(): Views {
  return { list: [], sorted: false, pending: new Map(), signals: [], blocked: [], quotes: new WeakMap() }
}

/** The old list, if the new one has the same elements. */
export function sameList<T>(old: readonly T[], now: readonly T[]): readonly T[] {
  return old.length === now.length && old.every((one, i) => one === now[i]) ? old : now
}

/** The old object, if the new one has the same fields. */
export function sameFields<T extends object>(old: T | undefined, now: T): T {
  if (!old) return now
  const keys = Object.keys(now) as (keyof T)[]
  return keys.length === Object.keys(old).length && keys.every((key) => old[key] === now[key]) ? old : now
}

/** All conversations that are known, those with the newest messages first. */
export function conversations(c: Core): readonly Conversation[] {
  if (c.views.sorted) return c.views.list
  c.views.sorted = true
  const all = Array.from(c.convs.values(), (v) => snapshot(c, v))
  const at = (s: Conversation): number => s.last?.timeMs ?? 0
  c.views.list = sameList(c.views.list, all.sort((a, b) => at(b) - at(a) || (a.id < b.id ? -1 : 1)))
  return c.views.list
}

/** One conversation, if the client knows it. */
export function conversation(c: Core, id: string): Conversation | undefined {
  const v = c.convs.get(id)
  return v && snapshot(c, v)
}

function snapshot(c: Core, v: Conv): Conversation {
  const old = v.view
  if (old && !v.stale) return old
  const last = lastMessage(c, v)
  v.stale = false
  v.receiptsGiven ??= new Map(v.receipts)
  v.view = sameFields(old, {
    id: v.id, kind: v.kind, title: v.title, peer: v.peer, role: v.role, left: v.left, head: v.head, have: v.have, unread: unread(v), read: v.read, known: v.known,
    receipts: v.receiptsGiven, typing: sameList(old?.typing ?? [], typists(c, v)), damaged: v.damaged, mentions: v.mentions.seqs,
    personal: sameFields(old?.personal, personal(c, v)), ...defined({ last }),
  })
  return v.view
}

function lastMessage(c: Core, v: Conv): Message | undefined {
  for (let i = v.slots.length - 1; i >= 0; i--) {
    const slot = v.slots[i]
    if (slot && (slot.entry.text || counts(slot.entry))) return message(c, v, slot)
  }
  return undefined
}

/**
 * The entries of a conversation that the client holds above after, oldest first, at most limit
 * (0: all). There is no hole among them but what the user may not read and what
 * Conversation.damaged names. Edits and recalls are applied to their targets and are entries of
 * their own as well.
 */
export function messages(c: Core, conv: string, after = 0, limit = 0): readonly Message[] {
  const v = c.convs.get(conv)
  if (!v) return none
  const whole = after === 0 && limit === 0
  if (whole && v.list) return v.list
  const from = find(v.slots, after + 1)
  const all = v.slots.slice(from, limit > 0 ? from + limit : undefined).map((slot) => message(c, v, slot))
  if (!whole) return all
  v.list = sameList(v.given, all)
  v.given = v.list
  return v.list
}

const none: readonly never[] = []

/** The entries above after that the client holds, as messages does; undefined: the history has to be asked. */
export function since(c: Core, conv: string, after: number, limit = 0): readonly Message[] | undefined {
  const v = c.convs.get(conv)
  return v?.known && after >= v.low ? messages(c, conv, after, limit) : undefined
}

/** An entry that is held, as a message. */
export function message(c: Core, v: Conv, slot: Slot): Message {
  const { entry, view } = slot
  const note = v.notes.size === 0 ? undefined : v.notes.get(entry.seq)
  const old = view && view.entry === entry && view.note === note ? view : undefined
  const own = entry.from === c.meta.user
  if (old && (!own || old.receiptsCame === v.receiptsCame)) return old.message
  let delivered = 0
  let read = 0
  if (own) {
    for (const r of v.receipts.values()) {
      if (r.delivered >= entry.seq) delivered++
      if (r.read >= entry.seq) read++
    }
  }
  if (old && old.message.delivered === delivered && old.message.read === read) {
    old.receiptsCame = v.receiptsCame
    return old.message
  }
  const noted = note && entry.recalledBy === 0 ? note : undefined // what was recalled has no note. Spec: S-9.2
  const one: Message = { ...entry, reactions: noted?.reactions ?? none, pinned: noted?.pinned ?? false, delivered, read }
  slot.view = { entry, note, receiptsCame: v.receiptsCame, message: one }
  return one
}

/** An entry of the history that the client does not hold, as a message. */
export function messageOf(entry: Entry): Message {
  return { ...entry, reactions: none, pinned: false, delivered: 0, read: 0 }
}

/**
 * Whether the message has a body that this version of the SDK does not know. Show that a newer
 * version of the application can show it; it is not a recalled one. Spec: P-2.7, S-4.4.
 */
export function needsNewerVersion(m: Entry): boolean {
  const body = m.text ?? m.data ?? m.edit ?? m.recall ?? m.members ?? m.profile ?? m.inbox
  return body === undefined && m.recalledBy === 0 && m.editedBy === 0 && !m.withheld && !m.lost
}

/** The messages to a conversation that are not among its messages yet, oldest first. */
export function pending(c: Core, conv: string): readonly Outgoing[] {
  return pendingOf(c, conv, c.convs.get(conv)?.peer ?? '')
}

/** The same of the direct conversation with a user, also before there is one. */
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

/** A message on its way, or one that is still shown. */
export function outgoing(c: Core, id: string): Outgoing | undefined {
  const o = c.sending.get(id)
  return o && outgoingView(o)
}

export function outgoingView(o: OutgoingState): Outgoing {
  const { id, composedMs, state, conv, seq, timeMs, error } = o
  const after = o.send.after
  const draft = o.view && o.sent === o.send ? o.view.draft : draftOf(o)
  o.sent = o.send
  o.view = sameFields(o.view, { id, composedMs, state, conv, seq, timeMs, draft, ...defined({ after, error }) })
  return o.view
}

/** What is sent, for another try. */
function draftOf(o: OutgoingState): Draft {
  const { conv, user, type, text, data, edit, recall, rel } = o.send
  return {
    ...(user === '' ? { conv } : { user }),
    ...defined({
      type: type || undefined, text: text || undefined, data, edit, recall, replyTo: rel?.replyTo || undefined, thread: rel?.thread || undefined, alsoMain: rel?.alsoMain,
      silent: rel?.silent, mentions: rel?.mentions.length ? rel.mentions : undefined, mentionAll: rel?.mentionAll, forward: rel?.forwardOf,
    }),
  }
}

/**
 * The newest signals of others, one of each conversation, sender and kind, at most a minute
 * old, the oldest first. Who is typing is told by Conversation.typing.
 */
export function signals(c: Core): readonly Signal[] {
  c.views.signals = sameList(c.views.signals, keptSignals(c).map((x) => x.signal))
  return c.views.signals
}

/** The users that the user blocks, sorted. */
export function blockedUsers(c: Core): readonly string[] {
  c.views.blocked = sameList(c.views.blocked, blocked(c))
  return c.views.blocked
}

/** How the client is connected. */
export function status(c: Core): Status {
  return c.status
}

/** Whether a request can be sent now. */
export function isLive(c: Core): boolean {
  return c.live !== undefined
}

/** How much the user has not read, in all conversations together. */
export function unreadTotal(c: Core): Unread {
  countUnread(c)
  return c.unread.total
}

/** Whether a user is online who is watched; undefined: that is not known, as without a connection. */
export function presence(c: Core, user: string): Presence | undefined {
  return c.lossy.presence.get(user)
}

/** The direct conversation with a user; '' before anybody has written there. */
export function direct(c: Core, user: string): string {
  return c.direct.get(user) ?? ''
}
