import { floor } from './conversation.js'
import type { Entry } from './frames.js'
import type { Message } from './model.js'
import { incomingKey, positionKey } from './rows.js'
import type { Position, Row } from './schema.js'
import { messages } from './snapshot.js'
import type { Core } from './state.js'

/** The progress of a loop in one conversation. */
export interface Reading {
  at: Position // the last entry that the loop has seen
  stored: number // seq of the stored position
  page: readonly Entry[] // a page of the history, used while the client does not hold the entry that follows `at`
}

/** Begins to read a conversation at the position that the application has finished. */
export function reading(c: Core, conv: string): Reading {
  const at = c.incoming.positions.get(conv) ?? { seq: 0, history: '' }
  return { at, stored: at.seq, page: [] }
}

/**
 * Sets the first positions, when incoming is used for the first time: the read cursors. It returns the rows to
 * write, or undefined while the list of conversations is not complete.
 */
export function beginIncoming(c: Core): Row[] | undefined {
  if (c.incoming.begun) return []
  if (!c.meta.synced) return undefined
  const rows: Row[] = []
  for (const v of c.convs.values()) {
    if (v.known) rows.push(moveTo(c, v.id, { seq: v.cursors.read, history: c.meta.history }))
  }
  c.incoming.begun = true
  return [...rows, incomingRow()]
}

/** Returns the row that notes that incoming was used. */
export function incomingRow(): Row {
  return { key: incomingKey, value: true }
}

/** Sets a position, and returns its row. */
export function moveTo(c: Core, conv: string, p: Position): Row {
  c.incoming.positions.set(conv, p)
  return { key: positionKey(conv), value: p }
}

/**
 * Returns the entry after x.at. 'none': there is no later one yet. undefined: the client does not hold it, so
 * the history has to be asked.
 *
 * A changed history id means that a backup was restored: seqs above the restored head are given a second time.
 * Entries up to the read cursor of the restored history existed before, so the loop goes on at the position or
 * at that cursor, whichever is lower.
 */
export function heldAfter(c: Core, conv: string, x: Reading): Message | 'none' | undefined {
  const v = c.convs.get(conv)
  if (!v?.known) return 'none'
  if (x.at.history !== c.meta.history) {
    x.at = { seq: Math.min(x.at.seq, v.cursors.read), history: c.meta.history }
    x.page = []
    x.stored = x.at.seq
  }
  if (x.at.seq < floor(v)) x.at = { ...x.at, seq: floor(v) }
  if (x.at.seq < v.low) return undefined
  return messages(c, conv, x.at.seq, 1)[0] ?? 'none'
}
