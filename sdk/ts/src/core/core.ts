import { type Change, type Gathered, noChange } from './change.js'
import { type ClientFrameJson, type Encoded, encodeJson } from './codec.js'
import type { Conv } from './conversation.js'
import { during, type Failure, failure } from './errors.js'
import { defined, type SetFocus } from './frames.js'
import { type Live, stepLive } from './live.js'
import { type Lossy, newLossy } from './lossy.js'
import type { Lane, OutgoingState } from './lane.js'
import { wakeLane } from './lane.js'
import type { Settings } from './personal.js'
import type { Incoming } from './position.js'
import { end, newReach, type Reach, stepReach } from './reach.js'
import { load, type Meta, type Row, type RowValue, type StoredRow, takeRows } from './rows.js'
import type { Outgoing, Views } from './snapshot.js'
import { newViews } from './snapshot.js'
import { countUnread, newUnread, type UnreadTotals } from './unread.js'

/** The version of the protocol that this package speaks. Spec: P-3.2. */
export const protocol = 1

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

type Writable<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer E)[] ? E[] : T[K] }

/** What one turn writes, and what follows once it is written. */
export interface Written {
  readonly rows: readonly Row[] // all or none
  readonly durable: boolean // before stored is called
  readonly change: Change // to be told once it is written
  readonly fresh: readonly OutgoingState[] // for stored
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
 * Nobody but the files of this folder touches other fields than now.
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
  readonly reach: Reach

  status: Status
  changed: Gathered // since the last prepare
  meta: Meta
  readonly convs: Map<string, Conv>
  readonly direct: Map<string, string> // other user → direct conversation
  readonly lanes: Map<string, Lane>
  ready: Lane[] // may have something to send
  readonly sending: Map<string, OutgoingState> // by client message id; not settled, or still shown
  sends: boolean // false: another tab sends them
  composed: number // number of the newest message composed
  fresh: OutgoingState[] // with rows that are not written yet
  moves: Conv[] // have cursors to move
  focus: SetFocus | undefined // absent: all
  live: Live | undefined
  pageLimit: number // entries of a history page; 0: the server's
  unread: UnreadTotals
  readonly incoming: Incoming
  lossy: Lossy
  readonly settings: Settings
  readonly views: Views // snapshots that were given, to give the same ones again

  rows: Map<string, RowValue | null> // to be written; null: to be removed
  readonly dirty: Set<Conv>
  readonly asking: Set<Conv> // with quotes to be asked for
  metaDirty: boolean
}

/** Makes a core. Call open before anything else. */
export function newCore(o: CoreOptions, random: () => number, newId: () => string, now: number): Core {
  return {
    o, random, newId, now, encode: o.encode ?? encodeJson, alarm: Infinity, out: noOutputs(), reach: newReach(o.url, o.speaks),
    status: { state: 'offline', user: '', server: '', history: '', synced: false, retryMs: 0 }, changed: noChange(),
    meta: { user: '', device: '', history: '', inbox: '', token: '', synced: false },
    convs: new Map(), direct: new Map(), lanes: new Map(), ready: [], sending: new Map(), sends: true, composed: 0, fresh: [], moves: [],
    focus: undefined, live: undefined, pageLimit: 0, unread: newUnread(), incoming: { reading: false, begun: false, positions: new Map() },
    lossy: newLossy(), settings: new Map(), views: newViews(), rows: new Map(), dirty: new Set(), asking: new Set(), metaDirty: false,
  }
}

/** Takes what the store holds. It throws an Error with the key of a row that it cannot read. */
export function open(c: Core, rows: readonly StoredRow[]): void {
  load(c, rows)
  if (c.o.device !== undefined) c.meta.device = c.o.device
  if (c.meta.device === '') {
    c.meta.device = c.newId()
    c.metaDirty = true
  }
}

/** Does what the state and the clock ask for. Afterwards alarm says when it is needed again at the latest. */
export function step(c: Core): void {
  c.alarm = Infinity
  stepReach(c)
  if (c.live) stepLive(c, c.live)
}

/** What the core wants done since the last time. */
export function takeOutputs(c: Core): Outputs {
  const out = c.out
  c.out = noOutputs()
  return out
}

function noOutputs(): Writable<Outputs> {
  return { dials: [], drops: [], frames: [], settled: [], remarks: [] }
}

/**
 * Takes what has changed since the last one. It is told, and messages go out, once the
 * caller has written it: then it calls stored. Nothing is to be done if there are no rows
 * and the change is empty. Spec: S-1.3, S-17.1.
 */
export function prepare(c: Core): Written {
  countUnread(c)
  const w: Written = { rows: takeRows(c), durable: c.fresh.length > 0, fresh: c.fresh, change: c.changed }
  c.fresh = []
  c.changed = noChange()
  return w
}

/** The rows of w are in the store, and durable if it said so. It returns what the application is told. */
export function stored(c: Core, w: Written): Change {
  for (const o of w.fresh) {
    o.safe = true
    wakeLane(c, o.lane)
  }
  return w.change
}

/** Nobody knows whether a write is in the store. Nothing of it is told, and the client stops. Spec: S-17.2. */
export function storeFailed(c: Core, why: string): void {
  end(c, during('the store of the client failed', failure('store', why)))
}

/** Notes a new status. */
export function setStatus(c: Core, state: State, error?: Failure, retryMs = 0): void {
  const { user, server, history } = c.status
  c.status = { state, user, server, history, synced: false, retryMs, ...defined({ error }) }
  c.changed.status = true
}

/** Has step called at t at the latest. */
export function alarmAt(c: Core, t: number): void {
  if (t < c.alarm) c.alarm = t
}
