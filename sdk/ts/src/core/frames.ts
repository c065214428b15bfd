// The frames of the protocol in the core's form. decode.ts converts received frames to it, and codec.ts
// converts sent ones from it: 64-bit numbers become numbers, base64 becomes bytes, and names of enums become
// short words.
//
// Numbers, texts and lists are always there, with their defaults. A flag is true or absent. A body, and a
// message inside a message, is absent if it is not set. All of it is plain data that is replaced and never
// changed, so it can be cloned, stored, and shared with snapshots.

export type ConvKind = '' | 'direct' | 'group' | 'channel' | 'chatroom' | 'inbox'
export type Role = '' | 'member' | 'admin' | 'owner'

/** The range of seqs from `from` to `to`, both included. */
export interface Range {
  /** The first seq. */
  readonly from: number
  /** The last seq. */
  readonly to: number
}

/** Returns the fields of an object that are not undefined. */
export function defined<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>
}

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> }

/** Names an entry of any conversation. */
export interface Ref {
  readonly conv: string
  readonly seq: number
}

/** The relations of a message to others. Spec: P-5.8. */
export interface Relations {
  /** Seq; 0: none. */
  readonly replyTo: number
  /** Seq of the message whose thread this one belongs to; 0: none. */
  readonly thread: number
  /** A message of a thread is shown among the other messages as well. */
  readonly alsoMain?: true
  /** Ids of the users whom it mentions. */
  readonly mentions: readonly string[]
  readonly mentionAll?: true
  /** In a send only. */
  readonly forwardOf?: Ref
  /** In a message only. */
  readonly forwarded?: Forwarded
  readonly silent?: true
}

/** The author and time of the forwarded message. Spec: P-5.10. */
export interface Forwarded {
  /** '': the author does not want to be named, or is the server. */
  readonly from: string
  readonly timeMs: number
}

/** Replaces the body of an earlier entry. Spec: P-5.3. */
export interface Edit {
  /** Seq of the entry. */
  readonly target: number
  readonly type: string
  readonly text?: string
  readonly data?: Uint8Array
  /** Absent: the relations of the target stay. */
  readonly rel?: Relations
}

/** Empties the body of an earlier entry. Spec: P-5.3. */
export interface Recall {
  /** Seq of the entry. */
  readonly target: number
}

export interface MemberRef {
  readonly user: string
  readonly role: Role
}

/** A change of membership. Spec: P-8.2. */
export interface MemberChange {
  readonly added: readonly MemberRef[]
  /** Users who were removed by somebody else. */
  readonly removed: readonly string[]
  /** Users who have left. */
  readonly left: readonly string[]
  readonly roles: readonly MemberRef[]
  readonly dissolved?: true
}

/** A change of the group itself: its title. */
export interface GroupChange {
  readonly title: string
}

/** Changes of settings: of a conversation, of another user, or of the account. Spec: P-8.10. */
export interface InboxSettings {
  readonly conv: string
  readonly user: string
  /** An empty value removes the name. */
  readonly values: ReadonlyMap<string, string>
}

/** The kind of an inbox entry, as far as the core distinguishes it. */
export type InboxEntry = { readonly kind: 'list' } | { readonly kind: 'settings'; readonly settings: InboxSettings } | { readonly kind: 'other' }

/** One entry of a conversation. Spec: P-5.1. */
export interface Entry {
  readonly conv: string
  readonly seq: number
  /** User id; '': the server itself. */
  readonly from: string
  /**
   * The client message id from its sender; the Outgoing of the message has the same id. '': the entry is not a send.
   */
  readonly clientMsgId: string
  /** When the server stored it, by its clock, in Unix ms: for display, never for order. */
  readonly timeMs: number
  /** How many entries up to this one count as unread. Spec: P-8.7. */
  readonly counted: number
  /** Kind of text or data; '' means 'text'. */
  readonly type: string
  readonly text?: string
  readonly data?: Uint8Array
  /** The entry edits an earlier one, which has the new text already: show nothing for the edit. */
  readonly edit?: Edit
  /** The entry recalls an earlier one, which is empty already: show nothing for the recall. */
  readonly recall?: Recall
  /** Members joined, left, or got other roles. */
  readonly members?: MemberChange
  /** The group has another title. */
  readonly group?: GroupChange
  readonly inbox?: InboxEntry
  /** Seq of the newest edit of the entry; 0: not edited. */
  readonly editedBy: number
  /** Seq of the recall of the entry; 0: not recalled. A recalled message has no text and no data. */
  readonly recalledBy: number
  /** The number of the message in its thread (rel.thread is the root): 1, 2, 3 …; 0: it is in no thread. */
  readonly threadN: number
  /** The content was lost when a disk was damaged. Spec: P-5.7. */
  readonly lost?: true
  /** The server withholds the content, for example because the user blocks the sender: show nothing. Spec: P-5.4. */
  readonly withheld?: true
  readonly rel?: Relations
}

/** The quote of an entry that others answer. Spec: P-5.9. */
export interface Quote {
  readonly seq: number
  readonly from: string
  readonly timeMs: number
  readonly type: string
  /** The first 256 bytes of the text at most. */
  readonly text?: string
  /** Absent if the data is larger than 256 bytes. */
  readonly data?: Uint8Array
  /** The text or data of the entry is longer. */
  readonly cut?: true
  readonly editedBy: number
  readonly recalledBy: number
  readonly lost?: true
  readonly forwarded?: Forwarded
}

/** One emoji at a message, and how many users added it. */
export interface Reaction {
  readonly emoji: string
  readonly count: number
  /** The user is among them. */
  readonly mine: boolean
}

/** The reactions to an entry, and its pin. Spec: P-5.11. */
export interface Note {
  /** Conversation id. */
  readonly conv: string
  readonly seq: number
  /** Increases with each change of the note. */
  readonly version: number
  readonly reactions: readonly Reaction[]
  readonly pinned?: true
  /** The note was made for all members: it does not say which reactions are the user's own. */
  readonly forAll?: true
}

export interface Hint {
  readonly conv: string
  readonly head: number
  readonly counted: number
  readonly mentionSeq: number
}

/** The cursors of a user in a conversation. */
export interface Receipt {
  readonly conv: string
  readonly user: string
  /** The user holds the entries up to this seq. */
  readonly delivered: number
  /** The user has read the entries up to this seq. */
  readonly read: number
}

/** An event that is not stored, like "is typing". Spec: P-13.1. */
export interface Signal {
  readonly conv: string
  readonly from: string
  readonly kind: string
  readonly data?: Uint8Array
  readonly head: number
  /** A random 64-bit number, as text. It is only compared. */
  readonly id: string
  readonly timeMs: number
  readonly holdMs: number
}

export interface PresenceEvent {
  readonly user: string
  readonly online: boolean
  readonly lastMs: number // 0: not known
  readonly profile: string // '': not told
}

/** The events of one pushed frame. Spec: P-6.1. */
export interface Events {
  readonly messages: readonly Entry[]
  readonly hints: readonly Hint[]
  readonly receipts: readonly Receipt[]
  readonly notes: readonly Note[]
  readonly signals: readonly Signal[]
  readonly presences: readonly PresenceEvent[]
}

/** Spec: P-5.2. */
export interface HistoryPage {
  readonly conv: string
  readonly messages: readonly Entry[]
  readonly head: number
  readonly firstSeq: number
  readonly more: boolean
  readonly refs: readonly Quote[]
  readonly notes: readonly Note[]
  readonly coveredFrom: number
  readonly coveredTo: number
}

/** The newest value that a user has set under one name. Spec: P-8.10. */
export interface PersonalValue {
  readonly seq: number // the inbox entry that set it
  readonly conv: string
  readonly user: string
  readonly name: string
  readonly value: string // '': the setting was removed
}

/** Spec: P-6.2. */
export interface SyncPage {
  readonly convs: readonly ConvState[]
  readonly token: string // opaque base64
  readonly more: boolean
  readonly personal: readonly PersonalValue[]
  readonly personalReset: boolean
}

export interface ConvState {
  readonly conv: string
  readonly kind: ConvKind
  readonly title: string
  readonly peer: string
  readonly head: number
  readonly counted: number
  readonly firstSeq: number
  readonly delivered: number
  readonly read: number
  readonly role: Role
  readonly left: boolean
  readonly newest: readonly Entry[]
  readonly joined: number
  readonly readCounted: number
  readonly peerReceipt?: Receipt
  readonly damaged: boolean
  readonly refs: readonly Quote[]
  readonly notes: readonly Note[]
  readonly mentions: readonly number[]
  readonly mentionsMissing: boolean
  readonly peerProfile: string
}

export interface Welcome {
  readonly user: string
  readonly inbox: string
  readonly historyId: string
  readonly heartbeatMs: number
  readonly window?: Window
  readonly limits: Limits
  readonly capabilities: readonly string[]
  readonly server: string
  readonly gateways: readonly string[]
}

/** The limits for unanswered sends. Spec: P-4.6. */
export interface Window {
  readonly sends: number
  readonly bytes: number
}

/** The limits that the server names; 0: none named. */
export interface Limits {
  readonly frameBytes: number
  readonly historyMessages: number
  readonly openRequests: number
}

/** Announces that the next frame is large. */
export interface Large {
  readonly bytes: number
}

export interface Focused {
  readonly heads: readonly Hint[]
}

export interface Ack {
  readonly conv: string
  readonly seq: number
  readonly timeMs: number
  readonly counted: number
  readonly message?: Entry
  readonly threadN: number
}

export interface CursorMoved {
  readonly read: number
  readonly mentions: readonly number[]
  readonly head: number // 0: the answer has no list of mentions
}

export interface Kick {
  readonly code: string
  readonly message: string
  readonly reconnect: boolean
  readonly reconnectAfterMs: number
}

/** The response of a call: one of the two is set. */
export interface Answer {
  readonly json?: string
  readonly proto?: Uint8Array
}

/** An error as the server sent it. errors.ts has the form for the application. */
export interface WireError {
  readonly code: string
  readonly message: string
  readonly hint: string
  readonly settled: boolean
  readonly retryable: boolean
  readonly retryAfterMs: number
  readonly requestId: string
  readonly head: number
  readonly user: string
  readonly damagedFrom: number
  readonly damagedTo: number
}

/** The possible bodies of a server frame. One is set. */
export interface Bodies {
  readonly welcome?: Welcome
  readonly ack?: Ack
  readonly error?: WireError
  readonly events?: Events
  readonly history?: HistoryPage
  readonly sync?: SyncPage
  readonly cursor?: CursorMoved
  readonly focus?: Focused
  readonly kick?: Kick
  readonly answer?: Answer
  readonly ping?: object
  readonly pong?: object
  readonly lagged?: object
  readonly large?: Large
  readonly signal?: object
  readonly watch?: object
}

/** A frame of the server. kind names its body. id is the id of the request that it answers, or 0. */
export type ServerFrame = { readonly id: number } & (
  | { [K in keyof Bodies]-?: { readonly kind: K } & { readonly [N in K]: Exclude<Bodies[N], undefined> } }[keyof Bodies]
  | { readonly kind: 'unknown' }
)

export interface Hello {
  readonly versionMin: number
  readonly versionMax: number
  readonly token: string
  readonly device: string
  readonly deviceKind: string
  readonly client: string
  readonly capabilities: readonly string[]
}

/** One of conv and user is set, and one body, or a rel with forwardOf. Spec: P-4. */
export interface Send {
  readonly conv: string
  readonly user: string
  readonly clientMsgId: string
  readonly after?: number // 0 and absent differ
  readonly type: string
  readonly text?: string
  readonly data?: Uint8Array
  readonly edit?: Edit
  readonly recall?: Recall
  readonly needs: readonly string[]
  readonly rel?: Relations
}

/**
 * The `before` of the newest page of a history: the highest 64-bit value, as text because a number cannot hold it.
 */
export const newestPage = '18446744073709551615'

/** Asks for a page of a conversation. Spec: P-5.2. */
export interface GetHistory {
  readonly conv: string
  /** The first entries above this seq. */
  readonly after?: number
  /** The last entries below this seq. */
  readonly before?: number | typeof newestPage
  /** The most entries; 0 or absent: the page size of the server. */
  readonly limit?: number
  /** The entries around this seq. */
  readonly around?: number
  /** The entries around the first one of this time or later, in Unix ms. */
  readonly atMs?: number
  /** The page has reactions and pins, but no entries. */
  readonly onlyNotes?: boolean
}

export interface SendSignal {
  readonly conv?: string
  readonly user?: string
  /** At most 32 bytes. */
  readonly kind: string
  /** At most 1 KiB. */
  readonly data?: Uint8Array
  /** How long the server keeps the signal for devices that connect later, in ms. */
  readonly holdMs?: number
}

export interface SetFocus {
  readonly convs: readonly string[]
  readonly all?: true
}

/** A frame of the client, without its id. */
export type ClientBody =
  | { readonly hello: Hello }
  | { readonly send: Send }
  | { readonly history: GetHistory }
  | { readonly sync: { readonly token: string; readonly newest: number } }
  | { readonly cursor: { readonly conv: string; readonly delivered: number; readonly read: number } }
  | { readonly focus: SetFocus }
  | { readonly ping: object }
  | { readonly pong: object }
  | { readonly call: { readonly method: string; readonly json?: string; readonly proto?: Uint8Array } }
  | { readonly signal: SendSignal }
  | { readonly watch: { readonly users: readonly string[]; readonly conv: string } }
