import type { Failure, Outgoing, Row, StoredRow } from './core/index.js'
import type { Clock } from './clock.js'
import type { Transport } from './transport.js'

export type { Row, StoredRow }

/**
 * Warnings for the person. 'memory': the data is lost when this page closes. 'alone': the tabs do not share a
 * connection.
 */
export type Warning = 'memory' | 'alone'

/**
 * The client's memory across restarts: rows by key, as many as the client holds in memory. A store belongs to
 * one user and one device. The values are plain data, which may contain Uint8Arrays.
 */
export interface Store {
  /** Opens the store, for one client at a time, and returns all rows, in any order. */
  load(): Promise<readonly StoredRow[]>
  /**
   * Writes all rows or none. If durable, they survive a loss of power once the promise is resolved. After an
   * error it is unknown whether they were written, and the client stops.
   */
  write(rows: readonly Row[], durable: boolean): Promise<void>
  /** Closes the store. */
  close(): Promise<void>
  /** Removes everything, from the disk too. */
  wipe(): Promise<void>
}

/** A store that several clients use at the same time, for example the tabs of a browser. */
export interface SharedStore {
  /** Adds a client. */
  share(seam: Seam): Shared
}

/** The callbacks of a client for a shared store. */
export interface Seam {
  readonly transport: Transport
  readonly clock: Clock
  readonly log: (line: string) => void
  /** Makes the client connect at once, or check that its connection lives. */
  readonly wakeUp: () => void
  /**
   * Passes on rows that another client has stored: messages of the outbox, or read cursors. tried: that client
   * may have sent the messages.
   */
  readonly outbox: (rows: readonly StoredRow[], tried: boolean) => void
  /** Passes on messages whose outcome another client has learned. */
  readonly settled: (messages: readonly Outgoing[]) => void
  /**
   * Makes the client the one that sends the messages of all. rows are those that the former sender left;
   * absent: the client reads them itself.
   */
  readonly lead: (rows?: readonly StoredRow[]) => void
  /** Makes the client leave the sending to another one. A client begins like this. */
  readonly follow: () => void
  /** Ends the client. */
  readonly end: (why: Failure) => void
  /** Passes on warnings for the person. */
  readonly warn: (warnings: readonly Warning[]) => void
}

/** A client's part of a shared store. The client uses its store and transport in place of its own. */
export interface Shared {
  readonly store: Store
  readonly transport: Transport
  /** Is called when the client begins to run, and when it ends. */
  running(on: boolean): void
  /** Is called with messages whose outcome the client has learned and stored. */
  settled(messages: readonly Outgoing[]): void
}

/** Makes a store that outlives its clients, but not the process or page. */
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
