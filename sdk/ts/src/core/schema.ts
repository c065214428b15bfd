import type { Failure } from './errors.js'
import type { ConvKind, Entry, PersonalValue, Range, Receipt, Role, Send } from './frames.js'

/** The stored state besides conversations and messages. */
export interface Meta {
  user: string
  device: string
  history: string // the history id that everything else belongs to
  inbox: string
  token: string // of the newest sync page that was applied; '': none
  synced: boolean // a complete sync was applied: a conversation that appears later is new to the user
}

/** A conversation as it is stored. Most fields have the names that they have in memory. */
export interface ConvRow {
  readonly conv: string
  readonly history: string // the history id that its seqs belong to
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

/** The stored form of a message that is still to be sent, or has failed. */
export interface OutgoingRow {
  readonly send: Send
  /** Order of composition. */
  readonly n: number
  readonly composedMs: number
  readonly look: boolean
  readonly stale: boolean
  /** Absent: it is still to be sent. */
  readonly state?: 'rejected' | 'unknowable'
  /** Why it failed; set with state only. */
  readonly error?: Failure
}

/**
 * The seq up to which the application has finished the messages of one conversation, and the history id that
 * the seq belongs to.
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

/** A row as read from the store; its value is not checked yet. */
export interface StoredRow {
  readonly key: string
  readonly value: unknown
}
