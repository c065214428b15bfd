import type { Gathered } from './change.js'
import type { ClientFrameJson, Encoded } from './codec.js'
import type { Failure } from './errors.js'
import type {
  ConvKind, Entry, Note, PersonalValue, Quote, Range, Receipt, Role, Send, ServerFrame, SetFocus, Signal, Welcome,
} from './frames.js'
import type { Conversation, Message, Outgoing, Presence, SendState, Status, Unread } from './model.js'
import type { Places } from './addresses.js'
import type { Meta, Position, RowValue } from './schema.js'

/** What the core needs of the options of a client. */
export interface CoreOptions {
  /** ws://, wss://, http:// or https://, and whatever else `speaks` has. */
  readonly url: string
  /** The schemes that the transport of the client can connect to. */
  readonly speaks: readonly string[]
  /** The id of this installation; absent: that of the store, made at random once. */
  readonly device?: string
  readonly deviceKind?: string
  /** Name and version of the application, for the operator's eyes. */
  readonly client: string
  /** There is a store. */
  readonly stored: boolean
  /** How many of the newest entries of a conversation are held. */
  readonly keep: number
  /** How many entries of a conversation are loaded when the client first meets it; 0: none. */
  readonly newest: number
  /** The application tells what is delivered, by markDelivered. */
  readonly manualDelivered: boolean
  /**
   * The transport tells of whole frames only, as in a browser: heard and moved are not
   * called. Then the client is more patient. Spec: S-5.7.
   */
  readonly wholeFrames?: boolean
  /** How a frame goes over the wire; absent: as JSON. */
  readonly encode?: (frame: ClientFrameJson) => Encoded
}

export type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : T[K] }

/** What the core wants done. The caller takes it with takeOutputs. */
export interface Outputs {
  /** A token is asked for; refused is the one that the server has just refused, or ''. */
  readonly token?: { readonly refused: string }
  /** Connections to be made. The number stands in everything that is said of one. */
  readonly dials: readonly { readonly conn: number; readonly addr: string }[]
  /** Connections to end, or to stop making, by number. */
  readonly drops: readonly number[]
  /** Frames to be sent, in this order. */
  readonly frames: readonly { readonly conn: number; readonly data: string | Uint8Array }[]
  /** Messages whose fate is known now. */
  readonly settled: readonly Outgoing[]
  /** Lines for the log. */
  readonly remarks: readonly string[]
  /** Run is over: a person, or the application, has to act. */
  readonly ended?: Failure
}

/**
 * The client without sockets, store, clock, randomness and timers: inputs go in, outputs
 * come out, and the same inputs always give the same outputs. sdk/SPEC.md says what it does,
 * and sdk/conformance has scripts of inputs and outputs that it follows.
 *
 * Inputs are functions that take the core: start, stop, tokenCame, opened, closed, frame,
 * heard, moved, stored, storeFailed, wakeUp, and the calls of the application. Before each
 * one the caller sets now. After it, or after some that came together, the caller calls
 * step, does what takeOutputs returns, and, unless a write is under way, writes what
 * prepare returns; until nothing is left to do.
 *
 * Only the files of this folder touch other fields than now. core.test.ts names the files that change a part.
 */
export interface Core {
  readonly o: CoreOptions
  readonly random: () => number // from 0 to below 1
  readonly newId: () => string // 128 random bits as text
  readonly encode: (frame: ClientFrameJson) => Encoded

  /** When the input that is being applied came, in Unix ms. It must not go back. */
  now: number
  /** When step has to be called at the latest; Infinity: not. */
  alarm: number
  out: Writable<Outputs>
  status: Status
  changed: Gathered // since the last prepare

  // The connection.
  readonly reach: Reach
  live: Live | undefined
  pageLimit: number // entries of a history page; 0: the server's

  // What the client knows.
  meta: Meta
  readonly convs: Map<string, Conv>
  readonly direct: Map<string, string> // other user → direct conversation
  readonly settings: Settings
  readonly lossy: Lossy
  readonly unread: UnreadTotals
  readonly views: Views // snapshots that were given, to give the same ones again

  // What it has to do.
  readonly outbox: Outbox
  readonly moves: Set<Conv> // have cursors to move
  readonly asking: Set<Conv> // with quotes to be asked for
  focus: SetFocus | undefined // absent: all
  readonly incoming: Incoming
  readonly store: StoreQueue
}

/** What the next turn writes. */
export interface StoreQueue {
  readonly rows: Map<string, RowValue | null> // by key; null: to be removed
  readonly dirty: Set<Conv> // with rows that are not made yet
  metaDirty: boolean
}

/**
 * How the client gets to a connection. A round asks for a token, and then tries the
 * addresses: the next one when one fails, and beside one that is slow. The first welcome
 * wins. Between rounds there are pauses. Spec: P-3.6, P-3.7.
 */
export interface Reach {
  running: boolean
  readonly places: Places
  conn: number // number of the newest connection
  tries: Try[]
  last: number // when the newest try began
  limit: number // ms of a try
  wait: number // ms of the next pause, at most
  pause: number // the end of the pause; 0: there is none
  without: string // the address that the round leaves out

  asking: boolean // for a token
  token: string // of this round
  refused: string // the token that the server has refused
  askAnew: boolean // another one was asked for since

  patience: number // ms by which the client is more patient than usual. Spec: S-5.8
  patientFor: Request['kind'] | undefined // until a request of this kind is answered
}

/** A connection without a welcome yet. */
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
  newest: number // asked of the sync under way
  reads: number // history requests under way
  readonly moving: Set<Conv> // whose cursors are under way
  pages: number // history pages that came
  back: boolean // the server holds less than it told, or something else
  readonly repairs: Map<Conv, boolean> // lack entries, first come first served; true: a page is asked for
  focused: SetFocus | undefined // sent on this connection; absent: all
  focusAt: number // when it has to be sent again; Infinity: not
  watchDue: boolean // the server does not know whom the application watches
  watchAt: number // not before
  pushed: Set<string> // keys of settings that came as events since the last lagged
}

/** A request that waits for its answer. answer is called once, with nothing when the connection ended. */
export interface Request {
  readonly at: number
  readonly kind: 'send' | 'page' | 'ping' | 'other'
  readonly bytes: number
  readonly answer: (f: ServerFrame | undefined) => void
}

/** Tells whether the server at the other end of a connection still lives. Spec: P-7. */
export interface Pulse {
  heard: number // when the last bytes of the server came
  moved: number // when the socket took the last bytes of what is awaited, or of what was sent before it
  taken?: number // id of the last request of which the socket took all
  pinged: number // the server was asked whether it is there; 0: not
  ahead: number // bytes of requests without an answer that were sent before it
  trip: number // ms of a request and its answer, smoothed; 0: not known
  bytes: number // of requests without an answer
}

/**
 * One conversation as this client knows it. It holds, without a hole, what the user may read
 * of (low, have]; head is the highest seq heard of. Lists that are read only are shared with
 * rows and snapshots: they are replaced, never changed. Spec: P-6.7.
 */
export interface Conv {
  readonly id: string
  known: boolean // a sync has said what it is
  kind: ConvKind
  title: string
  titleAt: number // the seq up to which the entries have said what the title is
  peer: string
  role: Role
  left: boolean
  joined: number
  firstSeq: number

  head: number
  have: number
  low: number
  before: number // have when the connection began
  counted: number // of the entry countedAt, the highest one of which it is known
  countedAt: number
  slots: Slot[] // of the entries that are held, ascending
  window: Slot[] // of entries below low that somebody reads, ascending; nothing of them is stored
  readonly held: Map<number, Entry> // behind the gap
  readonly notes: Map<number, Note> // by seq
  damaged: readonly Range[] // passed over, oldest first
  paged: number // entries that older pages have added to what is kept
  repairAt: number // not before

  readonly cursors: Cursors
  readonly mentions: Mentions
  readonly quotes: Quotes
  readonly shown: Shown
}

/** How far the user and others are in a conversation. */
export interface Cursors {
  read: number // the user's own cursor, wanted moves included
  readCounted: number // what is counted up to here is not unread: the read cursor, or the beginning of the user's newest stay
  deliveredTo: number
  wantRead: number // not confirmed by the server; 0: nothing wanted
  wantDelivered: number
  own: readonly number[] // counted of the user's own messages that count, above readCounted
  readonly receipts: Map<string, Receipt> // by user
  receiptsGiven: ReadonlyMap<string, Receipt> | undefined // the snapshot of them, if nothing has changed since it was given
  receiptsCame: number
  moveAt: number // the next move is not sent before
}

/** What is known of entries that others answer, by seq. */
export interface Quotes {
  readonly known: Map<number, Quote | undefined> // undefined: the user may not read it
  readonly wanted: Map<number, boolean> // true: asked for
  askAt: number // not before
}

/** The snapshots of a conversation. */
export interface Shown {
  view: Conversation | undefined // that was given last
  stale: boolean // the conversation has changed since
  list: readonly Message[] | undefined // of all entries, if nothing has changed since it was given
  former: readonly Message[] // the list that was given last
}

/** An entry that is held. It is replaced when a later one rewrites it. */
export interface Slot {
  entry: Entry
  view: MessageView | undefined // the snapshot that was given last
}

/** The unread entries of one conversation that mention the user. */
export interface Mentions {
  seqs: readonly number[] // ascending
  to: number // the server has named those up to here; later ones are from entries
  asked: boolean // the server is to be asked again: something was not pushed
}

/** The messages on their way. */
export interface Outbox {
  readonly lanes: Map<string, Lane>
  readonly ready: Set<Lane> // may have something to send
  readonly sending: Map<string, OutgoingState> // by client message id; not settled, or still shown
  sends: boolean // false: another tab sends them
  composed: number // number of the newest message composed
  fresh: OutgoingState[] // with rows that are not written yet
}

/** A message on its way. */
export interface OutgoingState {
  readonly id: string
  readonly composedMs: number
  readonly n: number // order of composition
  lane: Lane
  send: Send // replaced, never changed; its after changes only as P-4.7 says
  state: SendState
  conv: string // '' until known
  seq: number
  timeMs: number // when the server stored it
  error?: Failure // of the newest attempt
  safe: boolean // its row is durable: it may go out
  tried: boolean // an attempt may have stored it, or may still do so
  look: boolean // to be looked for in the history before it is sent
  from: number
  until: number // after, if the history does not tell
  stale: boolean // its target is a seq of another history id: it is not sent any more
  fresh: boolean // never sent, composed under another history id: after is the head now
  view?: Outgoing // the snapshot that was given last
  sent?: Send // what it was made of
}

/**
 * The queue of one conversation: one message at a time is on its way, which keeps the order
 * even when the server refuses one for the moment. Spec: P-4.3, S-12.3.
 */
export interface Lane {
  readonly key: string
  queue: OutgoingState[] // oldest first, not settled
  show: OutgoingState[] // oldest first, not among the entries of the conversation
  busy: number // messages whose answer is awaited: at most one, unless two lanes turned out to be one
  at: number // nothing is sent before
  fails: number // refusals in a row that named no time
}

/** The settings of the user, by what they are of and by name: the newest values that the client knows. */
export type Settings = Map<string, Map<string, PersonalValue>>

/** What the client knows for the moment: nothing of it is stored, and it is gone with the connection. */
export interface Lossy {
  readonly typing: Map<Conv, Map<string, number>> // until when a user is shown as typing
  readonly told: Map<string, number> // when the server was told last that the user is typing, by conversation
  signals: readonly Heard[] // the oldest first
  watch: readonly string[] // whose presence the application wants to know
  readonly presence: Map<string, Presence> // of these, as far as is known
}

export interface Heard {
  readonly signal: Signal
  readonly at: number
}

/** What the loop over incoming messages keeps from one loop to the next. */
export interface Incoming {
  reading: boolean // a loop is under way
  begun: boolean // it was used before, perhaps by an earlier process
  readonly positions: Map<string, Position> // by conversation
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

/**
 * The sums, kept up to date with what changes: adding up thousands of conversations for each
 * message would cost more than the message.
 */
export interface UnreadTotals {
  total: Unread
  readonly by: Map<string, { readonly messages: number; readonly mentions: number }> // conversations that have some
}
