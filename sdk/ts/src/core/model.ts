import type { Failure } from './errors.js'
import type { ConvKind, Entry, Range, Reaction, Recall, Receipt, Ref, Relations, Role } from './frames.js'

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

/** What the user has set of a conversation, on whichever device. Spec: P-8.10. */
export interface Personal {
  /** Until then, in Unix ms, the person is not disturbed; 0: not muted. */
  readonly mutedUntilMs: number
  /** Of which messages the person is told: 'all', 'mentions', 'nothing'; '': not set. */
  readonly notify: string
  /** Above 0: it stands at the top, in the order of these. */
  readonly pinned: number
  readonly archived: boolean
  /** The person wants it to look unread. */
  readonly unread: boolean
  /** Nothing up to this seq is shown. */
  readonly clearedTo: number
  /** Seqs that are not shown either, like '3,7-9'. */
  readonly hidden: string
  /** Of a direct conversation: the user blocks the other one. */
  readonly blocked: boolean
}

/**
 * Whether a user is online. Of a user whom one may not see, and of one who does not exist, it
 * says that they are offline. Spec: P-13.6.
 */
export interface Presence {
  readonly online: boolean
  /** Of a user who is offline: until when they were online, in Unix ms, to 10 minutes; 0: not known. */
  readonly lastMs: number
}

/** How much the user has not read, in all conversations together. */
export interface Unread {
  /** Messages of others above the read cursors. */
  readonly messages: number
  /** Conversations that have some of them. */
  readonly conversations: number
  /** How many of them mention the user. */
  readonly mentions: number
}

export type State = 'offline' | 'connecting' | 'live'

/** How the client is connected. */
export interface Status {
  /** offline: not running, or waiting before the next try; connecting: until the welcome. */
  readonly state: State
  /** The user's id; '' before the first connection. */
  readonly user: string
  /** Name and version of the server; '' before the first connection. */
  readonly server: string
  /** Names the server's memory. When it changes, seqs that the application has kept mean nothing any more. Spec: P-3.4. */
  readonly history: string
  /** The list of conversations is that of the server. Until then it is what the store has. */
  readonly synced: boolean
  /** Why it is offline; absent: it was not connected yet, or was stopped. With retryMs 0 the client has ended, and a person has to act. */
  readonly error?: Failure
  /** When the next try begins while it is offline, in Unix ms; 0: not known. */
  readonly retryMs: number
}
