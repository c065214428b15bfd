import type { Failure, Outgoing, Row, StoredRow } from './core/index.js'
import type { Clock } from './clock.js'
import type { Transport } from './transport.js'

export type { Row, StoredRow }

/** Warnings for the person: 'memory': nothing outlives this page. 'alone': the tabs do not share a connection. */
export type Warning = 'memory' | 'alone'

/**
 * The client's memory across restarts: a table of rows by key, bounded by what the client holds. A store belongs to one user and one device. The
 * values are plain data with Uint8Arrays in it.
 */
export interface Store {
  /** Opens the store, for one client at a time, and returns all rows, in any order. */
  load(): Promise<readonly StoredRow[]>
  /**
   * Puts all rows or none. If durable, they survive a loss of power once it has ended.
   * After an error nothing is known, and the client stops.
   */
  write(rows: readonly Row[], durable: boolean): Promise<void>
  /** Ends the use of the store. */
  close(): Promise<void>
  /** Removes everything, also from the disk. */
  wipe(): Promise<void>
}

/** A store that several clients may use at the same time, as the tabs of a browser do. */
export interface SharedStore {
  /** Adds a client. */
  share(seam: Seam): Shared
}

/** The callbacks of a client for a shared store. */
export interface Seam {
  readonly transport: Transport
  readonly clock: Clock
  readonly log: (line: string) => void
  /** The client is to connect at once, or to make sure that its connection lives. */
  readonly wakeUp: () => void
  /** Another client has stored these rows of the outbox, and perhaps sent the messages (tried), or was told of these read cursors. */
  readonly outbox: (rows: readonly StoredRow[], tried: boolean) => void
  /** Another client has learned the fate of these messages. */
  readonly settled: (messages: readonly Outgoing[]) => void
  /** From now on the client sends the messages of all. rows is what the one before it has left; absent: the client reads it itself. */
  readonly lead: (rows?: readonly StoredRow[]) => void
  /** Another client sends the messages, as it is at the beginning. */
  readonly follow: () => void
  /** The client has to end. */
  readonly end: (why: Failure) => void
  /** What the person should know of the store. */
  readonly warn: (warnings: readonly Warning[]) => void
}

/** A client's part of a shared store: it uses these in the place of its own. */
export interface Shared {
  readonly store: Store
  readonly transport: Transport
  /** The client runs, or does not any more. */
  running(on: boolean): void
  /** The client has learned the fate of these messages, and stored it. */
  settled(messages: readonly Outgoing[]): void
}

/** A store that outlives clients, but not the process or page. */
export function memoryStore(): Store {
  const rows = new Map<string, unknown>()
  return {
    load: async () => Array.from(rows, ([key, value]) => ({ key, value: structuredClone(value) })),
    write: async (change) => put(rows, change.map(({ key, value }) => ({ key, value: structuredClone(value) }))),
    close: async () => {},
    wipe: async () => rows.clear(),
  }
}

/** Applies rows to a table in memory. */
export function put(table: Map<string, unknown>, rows: readonly Row[]): void {
  for (const { key, value } of rows) {
    if (value === null) table.delete(key)
    else table.set(key, value)
  }
}
