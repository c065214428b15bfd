import { floor } from './conversation.js'
import type { Entry } from './frames.js'
import type { Message } from './model.js'
import { incomingKey, positionKey } from './rows.js'
import type { Position, Row } from './schema.js'
import { messages } from './snapshot.js'
import type { Core } from './state.js'

/** How far a loop is in one conversation. */
export interface Reading {
  at: Position // the last entry that was looked at
  stored: number // seq of the position that the store has
  page: readonly Entry[] // entries of the history, where the client does not hold what follows at
}

/** Begins to read a conversation where the application has finished. */
export function reading(c: Core, conv: string): Reading {
  const at = c.incoming.positions.get(conv) ?? { seq: 0, history: '' }
  return { at, stored: at.seq, page: [] }
}

/**
 * Sets the positions when incoming messages are read for the first time, once the whole list
 * of conversations is there: undefined before. The rows are to be written.
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

/** The rows that note that Incoming is in use, with its first positions. */
export function incomingRow(): Row {
  return { key: incomingKey, value: true }
}

/** Notes a position, and returns the row that is to be written. */
export function moveTo(c: Core, conv: string, p: Position): Row {
  c.incoming.positions.set(conv, p)
  return { key: positionKey(conv), value: p }
}

/**
 * The entry that follows x.at, if the client holds what follows there: 'none' if there is none
 * yet, and undefined if the history has to be asked.
 *
 * After a change of the history, which is the restore of a backup, seqs above the restored head
 * are given a second time. What is below the read cursor of the restored history was there
 * before, so the loop goes on at the lower of the two.
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
