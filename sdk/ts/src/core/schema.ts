import type { Failure } from './errors.js'
import type { ConvKind, Entry, PersonalValue, Range, Receipt, Role, Send } from './frames.js'

/** What the store knows besides conversations and messages. */
export interface Meta {
  user: string
  device: string
  history: string // the history id that all else belongs to
  inbox: string
  token: string // of the newest sync page that was applied; '': none
  synced: boolean // a whole sync was applied: what shows up now is new
}

/** A conversation as it is stored. Most fields have the names that they have in memory. */
export interface ConvRow {
  readonly conv: string
  readonly history: string // that all its seqs belong to
  readonly known: boolean
  readonly kind: ConvKind
  readonly title: string
  readonly peer: string
  readonly role: Role
  readonly left: boolean
  readonly joined: number
  readonly firstSeq: number
  readonly head: number
  readonly have: number
  readonly low: number
  readonly counted: number
  readonly countedAt: number
  readonly read: number
  readonly readCounted: number
  readonly deliveredTo: number
  readonly wantRead: number
  readonly wantDelivered: number
  readonly own: readonly number[]
  readonly damaged: readonly Range[]
  readonly mentions: readonly number[]
  readonly mentionsTo: number
  readonly peerReceipt?: Receipt
}

/** A message to be sent, or one that was not, as it is stored. */
export interface OutgoingRow {
  readonly send: Send
  /** Order of composition. */
  readonly n: number
  readonly composedMs: number
  readonly look: boolean
  readonly stale: boolean
  /** Absent: it is still to be sent. */
  readonly state?: 'rejected' | 'unknowable'
  /** With a state. */
  readonly error?: Failure
}

/**
 * How far the application has finished the messages of one conversation. A seq means nothing
 * without the history that it belongs to.
 */
export interface Position {
  readonly seq: number
  readonly history: string
}

/** The value of a row: plain data that can be cloned, with bytes as Uint8Array. */
export type RowValue = Readonly<Meta> | ConvRow | Entry | OutgoingRow | PersonalValue | Position | true

/** A row to be written; null removes the key. */
export interface Row {
  readonly key: string
  readonly value: RowValue | null
}

/** A row of the store, of which nothing is known but what it says. */
export interface StoredRow {
  readonly key: string
  readonly value: unknown
}
