import type { Gathered } from './change.js'
import type { ClientFrameJson, Encoded } from './codec.js'
import type { Failure } from './errors.js'
import type {
  ConvKind, Entry, Note, PersonalValue, Quote, Range, Receipt, Role, Send, ServerFrame, SetFocus, Signal, Welcome,
} from './frames.js'
import type { Conversation, Message, Outgoing, Presence, SendState, Status, Unread } from './model.js'
import type { Addresses } from './addresses.js'
import type { Meta, Position, RowValue } from './schema.js'

/** The options of a client that the core uses. */
export interface CoreOptions {
  /** ws://, wss://, http:// or https://, or another scheme of `speaks`. */
  readonly url: string
  /** The schemes that the transport of the client can connect to. */
  readonly speaks: readonly string[]
  /** The id of this installation; absent: a random one, made once and kept in the store. */
  readonly device?: string
  readonly deviceKind?: string
  /** Name and version of the application, for the operator's eyes. */
  readonly client: string
  /** The client has a store. */
  readonly stored: boolean
  /** How many of the newest entries of a conversation are held. */
  readonly keep: number
  /** How many entries of a conversation are loaded when the client first learns of it; 0: none. */
  readonly newest: number
  /** The application calls markDelivered; otherwise the core marks all held entries as delivered. */
  readonly manualDelivered: boolean
  /**
   * The transport reports whole frames only, as in a browser; heard and moved are not called. Then the client
   * waits longer before it gives a connection up. Spec: S-5.7.
   */
  readonly wholeFrames?: boolean
  /** Encodes a frame; absent: as JSON. */
  readonly encode?: (frame: ClientFrameJson) => Encoded
}

export type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : T[K] }

/** The actions that the core asks for. The caller takes them with takeOutputs. */
export interface Outputs {
  /** Asks for a token. refused is the token that the server has just refused, or ''. */
  readonly token?: { readonly refused: string }
  /** Connections to be made. The inputs and the other outputs name a connection by this number. */
  readonly dials: readonly { readonly conn: number; readonly addr: string }[]
  /** Numbers of connections to close, or whose opening is to be stopped. */
  readonly drops: readonly number[]
  /** Frames to be sent, in this order. */
  readonly frames: readonly { readonly conn: number; readonly data: string | Uint8Array }[]
  /** Messages whose outcome has become known. */
  readonly settled: readonly Outgoing[]
  /** Lines for the log. */
  readonly remarks: readonly string[]
  /** Why the client has to stop running: a person, or the application, has to act. */
  readonly ended?: Failure
}

/**
 * The client without sockets, store, clock, randomness and timers: inputs go in, outputs come out, and the same
 * inputs always give the same outputs. sdk/SPEC.md says what it does, and sdk/conformance has scripts of inputs and
 * outputs that it follows.
 *
 * Inputs are functions that take the core: start, stop, tokenCame, opened, closed, frame, heard, moved, stored,
 * storeFailed, wakeUp, and the calls of the application. The caller sets `now` before each input. After one or
 * several inputs it calls step, carries out what takeOutputs returns, and, unless a write is under way, writes what
 * prepare returns. It repeats this until nothing is left to do.
 *
 * Code outside of this folder touches no field but `now`. core.test.ts names the files that change a part.
 */
export interface Core {
  readonly o: CoreOptions
  readonly random: () => number // from 0 to below 1
  readonly newId: () => string // 128 random bits as text
  readonly encode: (frame: ClientFrameJson) => Encoded

  /** The time of the present input, in Unix ms. It never decreases. */
  now: number
  /** The latest time of the next call of step; Infinity: none is due. */
  alarm: number
  out: Writable<Outputs>
  status: Status
  changed: Gathered // since the last prepare

  // The connection.
  readonly reach: Reach
  live: Live | undefined
  pageLimit: number // entries of a history page; 0: the server's

  // The known state.
  meta: Meta
  readonly convs: Map<string, Conv>
  readonly direct: Map<string, string> // other user → direct conversation
  readonly settings: Settings
  readonly lossy: Lossy
  readonly unread: UnreadTotals
  readonly views: Views // former snapshots, which are returned again while nothing changed

  // Work that is still to be done.
  readonly outbox: Outbox
  readonly moves: Set<Conv> // with cursors that the server does not have yet
  readonly asking: Set<Conv> // with quotes to be requested
  focus: SetFocus | undefined // absent: all
  readonly incoming: Incoming
  readonly store: StoreQueue
}

/** The rows that the next turn writes. */
export interface StoreQueue {
  readonly rows: Map<string, RowValue | null> // by key; null: to be removed
  readonly dirty: Set<Conv> // whose rows are made when the turn is written
  metaDirty: boolean
}

/**
 * The state of connecting. A round asks for a token, and then tries the addresses in order: the next one when a try
 * fails, or has no answer for a while. The first welcome wins. Between rounds there are pauses. Spec: P-3.6, P-3.7.
 */
export interface Reach {
  running: boolean
  readonly places: Addresses
  conn: number // number of the newest connection
  tries: Try[]
  last: number // when the newest try began
  limit: number // the time after which a try fails, in ms
  wait: number // the longest next pause, in ms
  pause: number // the end of the pause; 0: there is none
  without: string // the address that the round leaves out

  asking: boolean // a token is asked for
  token: string // of this round
  refused: string // the token that the server has refused
  askAnew: boolean // another token was asked for since the last welcome

  patience: number // ms that are added to the wait for an answer. Spec: S-5.8
  patientFor: Request['kind'] | undefined // the answer to a request of this kind ends patience
}

/** A connection that has no welcome yet. */
export interface Try {
  readonly conn: number
  readonly addr: string
  readonly begun: number
  greeted: number // when the hello went out
}

/** One connection from its welcome on. */
export interface Live {
  readonly conn: number
  readonly addr: string
  readonly began: number
  readonly welcome: Welcome
  readonly pulse: Pulse

  nextId: number
  readonly waiting: Map<number, Request> // by id, in the order in which they were sent

  sends: number // unanswered, P-4.6
  sendBytes: number
  synced: boolean
  syncing: boolean // a sync is under way
  syncAt: number // when the next one is due; Infinity: none is
  newest: number // entries of each conversation that the present sync asks for
  reads: number // history requests under way
  readonly moving: Set<Conv> // conversations whose cursor request is under way
  pages: number // history pages that came
  back: boolean // the server went back: it lacks entries that it sent, or has others in their place
  readonly repairs: Map<Conv, boolean> // conversations that lack entries, in the order of requests; true: a page is under way
  focused: SetFocus | undefined // sent on this connection; absent: all
  focusAt: number // when it has to be sent again; Infinity: not
  watchDue: boolean // the watch of the application has to be sent
  watchAt: number // the earliest time to send the watch
  pushed: Set<string> // keys of settings that came as events since the last lagged
}

/** A request that waits for its answer. `answer` is called once, with undefined if the connection ended. */
export interface Request {
  readonly at: number
  readonly kind: 'send' | 'page' | 'ping' | 'other'
  readonly bytes: number
  readonly answer: (f: ServerFrame | undefined) => void
}

/** The times that show whether the server still lives. Spec: P-7. */
export interface Pulse {
  heard: number // when the last bytes of the server came
  moved: number // when the socket last took bytes of the awaited request, or of one before it
  taken?: number // id of the last request of which the socket took all
  pinged: number // when a ping was sent that has no answer yet; 0: none
  ahead: number // bytes of the unanswered requests that were sent before the ping
  trip: number // smoothed round trip in ms; 0: not known
  bytes: number // of all unanswered requests
}

/**
 * One conversation as this client knows it. It holds all entries of (low, have] that the user may read. head is
 * the highest seq that the client has heard of. Readonly lists are shared with rows and snapshots, so they are
 * replaced and never changed. Spec: P-6.7.
 */
export interface Conv {
  readonly id: string
  known: boolean // a sync has described it
  kind: ConvKind
  title: string
  titleAt: number // the seq as of which the title is known
  peer: string
  peerProfile: string // as a sync told it; not stored
  role: Role
  left: boolean
  joined: number
  firstSeq: number

  head: number
  have: number
  low: number
  before: number // have when the connection began
  counted: number // counted of the entry countedAt, the newest one whose counted is known
  countedAt: number
  slots: Slot[] // the held entries, ascending
  window: Slot[] // entries below low that a HistoryWindow shows, ascending; they are not stored
  readonly held: Map<number, Entry> // entries above a gap, by seq
  readonly notes: Map<number, Note> // by seq
  damaged: readonly Range[] // unreadable seqs that were skipped, oldest first
  paged: number // how many entries older pages have added; they are kept beyond the bound
  repairAt: number // the earliest time of the next page request

  readonly cursors: Cursors
  readonly mentions: Mentions
  readonly quotes: Quotes
  readonly shown: Shown
}

/** The read and delivered cursors of a conversation, of the user and of others. */
export interface Cursors {
  read: number // the user's own cursor; moves that are not sent yet are included
  readCounted: number // entries whose counted is at most this are not unread: the read cursor, or the beginning of the newest stay
  deliveredTo: number
  wantRead: number // a move that the server has not confirmed; 0: none
  wantDelivered: number
  own: readonly number[] // the counted of each own message that counts as unread for others, above readCounted
  readonly receipts: Map<string, Receipt> // by user
  receiptsGiven: ReadonlyMap<string, Receipt> | undefined // their snapshot; undefined: outdated
  receiptsCame: number
  moveAt: number // the earliest time of the next move
}

/** Quotes of entries that other entries answer, by seq. */
export interface Quotes {
  readonly known: Map<number, Quote | undefined> // undefined: the user may not read it
  readonly wanted: Map<number, boolean> // true: a request is under way
  askAt: number // the earliest time of the next request
}

/** The snapshots of a conversation. */
export interface Shown {
  view: Conversation | undefined // the newest one
  stale: boolean // the conversation has changed since
  list: readonly Message[] | undefined // all entries; undefined: outdated
  former: readonly Message[] // the newest list, possibly outdated
}

/** An entry that is held. It is replaced when a later one rewrites it. */
export interface Slot {
  entry: Entry
  view: MessageView | undefined // the newest snapshot
}

/** The unread entries of one conversation that mention the user. */
export interface Mentions {
  seqs: readonly number[] // ascending
  to: number // the server has listed the mentions up to this seq; later ones are from entries
  asked: boolean // the server has to be asked again, because an entry was not pushed
}

/** The messages on their way. */
export interface Outbox {
  readonly lanes: Map<string, Lane>
  readonly ready: Set<Lane> // lanes that may have a message to send
  readonly sending: Map<string, OutgoingState> // by client message id: unsettled messages, and settled ones that are still shown
  sends: boolean // false: another tab sends them
  composed: number // the highest n
  fresh: OutgoingState[] // messages whose rows are not written yet
}

/** A message on its way. */
export interface OutgoingState {
  readonly id: string
  readonly composedMs: number
  readonly n: number // order of composition
  lane: Lane
  send: Send // replaced, never changed; its `after` changes only as P-4.7 says
  state: SendState
  conv: string // '' until known
  seq: number
  timeMs: number // when the server stored it
  error?: Failure // of the newest attempt
  safe: boolean // its row is durable: it may go out
  tried: boolean // an earlier attempt may have stored it, or may still do so
  look: boolean // it is searched for in the history before it is sent
  from: number // the search begins above this seq
  until: number // its new `after`, if the history cannot be searched
  stale: boolean // its target is a seq of a former history id, so it is not sent any more
  fresh: boolean // never sent, and composed under a former history id: its `after` becomes the present head
  view?: Outgoing // the newest snapshot
  sent?: Send // the send that view was made of
}

/**
 * The queue of one conversation. One message at a time is sent and awaits its answer, so the order holds even
 * when the server refuses one for the moment. Spec: P-4.3, S-12.3.
 */
export interface Lane {
  readonly key: string
  queue: OutgoingState[] // oldest first, not settled
  show: OutgoingState[] // oldest first, not among the entries of the conversation
  busy: number // messages that await an answer: at most one, but two right after two lanes were joined
  at: number // the earliest time of the next send
  fails: number // refusals in a row without a time to wait
}

/** The newest values of the settings that the client knows: by subject (see settings.ts), then by name. */
export type Settings = Map<string, Map<string, PersonalValue>>

/** State that is never stored. Typing, told and presence are forgotten when the connection ends. */
export interface Lossy {
  readonly typing: Map<Conv, Map<string, number>> // until when a user is shown as typing
  readonly told: Map<string, number> // when the last typing signal was sent, by conversation
  signals: readonly Heard[] // the oldest first
  watch: { readonly users: readonly string[]; readonly conv: string } // whose presence the application wants to know
  readonly presence: Map<string, Presence> // the presences of these users that are known
}

export interface Heard {
  readonly signal: Signal
  readonly at: number
}

/** The state of the loop over incoming messages. It outlives one loop. */
export interface Incoming {
  reading: boolean // a loop is under way
  begun: boolean // a loop was begun before, perhaps by an earlier process
  readonly positions: Map<string, Position> // by conversation
}

/** Former snapshots. They are returned again while nothing has changed. */
export interface Views {
  list: readonly Conversation[]
  sorted: boolean // list is up to date
  readonly pending: Map<string, readonly Outgoing[]>
  signals: readonly Signal[]
  blocked: readonly string[]
  readonly quotes: WeakMap<Entry, Quote>
}

/** The snapshot of an entry, and the values that it was made of. */
export interface MessageView {
  readonly entry: Entry
  readonly note: Note | undefined
  receiptsCame: number
  readonly message: Message
}

/**
 * The unread counts of all conversations together, updated with each change: adding up thousands of
 * conversations for each message would cost more than the message.
 */
export interface UnreadTotals {
  total: Unread
  readonly by: Map<string, { readonly messages: number; readonly mentions: number }> // of the conversations with unread messages or mentions
}
