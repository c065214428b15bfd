import type { Failure } from './errors.js'
import type { ConvKind, Entry, Range, Reaction, Recall, Receipt, Ref, Relations, Role } from './frames.js'

/** A conversation as the client knows it at one moment. */
export interface Conversation {
  readonly id: string
  readonly kind: ConvKind
  /** The title of a group; '': a direct conversation. */
  readonly title: string
  /** The other user of a direct conversation; '' of a group. */
  readonly peer: string
  /** The version of the peer's profile that a sync told last; '': none did since the client began. Spec: P-14.5. */
  readonly peerProfile: string
  readonly role: Role
  /** The user is no longer a member. */
  readonly left: boolean
  /** The highest seq of the conversation that the client has heard of. */
  readonly head: number
  /**
   * The client holds all entries up to this seq that the user may read. If it is below head, further ones are
   * on their way.
   */
  readonly have: number
  /** How many messages of others above `read` there are; those of threads do not count. Spec: P-8.7. */
  readonly unread: number
  /** The user's own read cursor, a seq: markRead moves it. */
  readonly read: number
  /** false: no sync has described the conversation yet. */
  readonly known: boolean
  /** The newest held message: with a text or data, or recalled. It may belong to a thread. */
  readonly last?: Message
  /** The cursors of other users that the client knows, by user. loadReceipts loads those of a group. */
  readonly receipts: ReadonlyMap<string, Receipt>
  /** Others who are typing now, sorted. */
  readonly typing: readonly string[]
  /**
   * Ranges that the server cannot read, oldest first: holes among the messages. An operator has to repair the
   * store. Spec: P-9.5.
   */
  readonly damaged: readonly Range[]
  /** Seqs of the unread messages that mention the user, ascending. If there are very many, only the oldest. */
  readonly mentions: readonly number[]
  /** The user's settings of the conversation. */
  readonly personal: Personal
}

/** An entry of a conversation with its reactions, its pin and its receipts. */
export interface Message extends Entry {
  readonly reactions: readonly Reaction[]
  /** It is pinned for all members. */
  readonly pinned: boolean
  /** Of an own message: how many others hold it, as far as is known. */
  readonly delivered: number
  /** Of an own message: how many others have read it, as far as is known. */
  readonly read: number
}

/** A new body for an earlier message. One of text and data is set. */
export interface EditDraft {
  /** Seq of the entry. */
  readonly target: number
  readonly type?: string
  readonly text?: string
  readonly data?: Uint8Array
  /** Absent: the relations of the target stay. */
  readonly rel?: Relations
}

/**
 * A message to be sent. One of conv and user is set, and at most one body: text, data, edit, recall or forward.
 * A draft without a body is an empty text.
 */
export interface Draft {
  /** Conversation id. */
  readonly conv?: string
  /** User id: the message goes to the direct conversation with that user, which need not exist yet. */
  readonly user?: string
  /**
   * The client message id; absent: a random one. An application that sets the id may send the same draft again,
   * even from another process, and it is stored once. The server then has to look the id up.
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
  /** The message causes no notification. */
  readonly silent?: boolean
  /**
   * The seq of the message to whose thread this one belongs. Such a message does not count
   * as unread unless it has alsoMain. Spec: P-5.12.
   */
  readonly thread?: number
  /** A message of a thread is shown among the other messages as well. */
  readonly alsoMain?: boolean
  /** Users whom the message mentions, at most 50, in any order. Spec: P-5.13. */
  readonly mentions?: readonly string[]
  /** The message mentions all members. In a group only admins and the owner may do that. */
  readonly mentionAll?: boolean
  /** The message to forward: the server copies its content and names its author. Spec: P-5.10. */
  readonly forward?: Ref
}

/**
 * sending: queued, or sent and without an outcome yet; show it as neither sent nor failed. sent: stored for
 * ever, with a seq. rejected: not stored, and never will be. unknowable: nobody can tell any more whether it is
 * stored. Spec: P-4.9.
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
  /** The content, without the id. After a rejection the application may send it again. */
  readonly draft: Draft
  /** Why it was rejected or is unknowable; while it is sending: why the server refused the last attempt. */
  readonly error?: Failure
}

/** The user's settings of a conversation, the same on all devices. Spec: P-8.10. */
export interface Personal {
  /** The conversation is muted until this time, in Unix ms; 0: not muted. */
  readonly mutedUntilMs: number
  /** Which messages cause a notification: 'all', 'mentions', 'nothing'; '': not set. */
  readonly notify: string
  /** Above 0: the conversation is pinned to the top of the list. Pinned ones are ordered by this number. */
  readonly pinned: number
  readonly archived: boolean
  /** The person has marked it as unread. */
  readonly unread: boolean
  /** Entries up to this seq are not shown. */
  readonly clearedTo: number
  /** Further seqs that are not shown, like '3,7-9'. */
  readonly hidden: string
  /** The user blocks the peer of this direct conversation. */
  readonly blocked: boolean
  /**
   * The messages of the peer of this direct conversation wait for the user to accept them, or the user has refused them.
   * Such a conversation belongs into a list of its own. Spec: P-14.12.
   */
  readonly firstMessages: '' | 'waiting' | 'refused'
}

/**
 * Whether a user is online. A user who does not exist, or whom the caller may not see, is reported as offline.
 * Spec: P-13.6.
 */
export interface Presence {
  readonly online: boolean
  /** When an offline user was last online, in Unix ms, rounded to 10 minutes; 0: not known. */
  readonly lastMs: number
  /** The version of the user's profile; '': not told. Spec: P-14.5. */
  readonly profile: string
}

/** The unread counts of all conversations together. */
export interface Unread {
  /** Messages of others above the read cursors. */
  readonly messages: number
  /** How many conversations have unread messages. */
  readonly conversations: number
  /** How many unread messages mention the user. */
  readonly mentions: number
}

export type State = 'offline' | 'connecting' | 'live'

/** The state of the connection. */
export interface Status {
  /** offline: not running, or waiting before the next try; connecting: until the welcome. */
  readonly state: State
  /** The user's id; '' before the first connection. */
  readonly user: string
  /** Name and version of the server; '' before the first connection. */
  readonly server: string
  /**
   * The history id of the server. When it changes, seqs that the application has stored are not valid any more.
   * Spec: P-3.4.
   */
  readonly history: string
  /** The list of conversations is in sync with the server. Before that it is the stored one. */
  readonly synced: boolean
  /**
   * Why the client is offline; absent: it was not connected yet, or was stopped. If retryMs is 0, the client
   * has ended and a person has to act.
   */
  readonly error?: Failure
  /** While the client is offline: when the next try begins, in Unix ms; 0: no try is planned. */
  readonly retryMs: number
}
