import type { Entry } from './frames.js'
import type { RowValue } from './schema.js'
import type { Conv, Core } from './state.js'

// Keys of the rows in the store.
export const metaKey = 'meta'
export const incomingKey = 'incoming' // set when incoming was used
export const convPrefix = 'c/'
export const entryPrefix = 'e/' // by conversation and seq
export const outPrefix = 'o/' // by client message id
export const positionPrefix = 'p/' // positions of incoming, by conversation
export const settingPrefix = 's/' // by conversation, user and name

export const convKey = (id: string): string => convPrefix + id
export const outgoingKey = (id: string): string => outPrefix + id
export const entryKey = (conv: string, seq: number): string => `${entryPrefix}${conv}/${seq.toString(16).padStart(16, '0')}`
export const positionKey = (conv: string): string => positionPrefix + conv
/** Ids of conversations and users have no slash. */
export const settingKey = (conv: string, user: string, name: string): string => `${settingPrefix}${conv}/${user}/${name}`

/** Queues a row to be written; null removes it. */
export function put(c: Core, key: string, value: RowValue | null): void {
  if (c.o.stored) c.store.rows.set(key, value)
}

/** Queues the row of an entry, unless the entry belongs to the window. */
export function keep(c: Core, v: Conv, m: Entry): void {
  if (c.o.stored && m.seq > v.low) c.store.rows.set(entryKey(m.conv, m.seq), m)
}

/** Queues the row of a conversation. */
export function storeConv(c: Core, v: Conv): void {
  c.store.dirty.add(v)
}

/** Queues the removal of the row of a conversation. */
export function dropConv(c: Core, v: Conv): void {
  c.store.dirty.delete(v)
  put(c, convKey(v.id), null)
}

export function storeMeta(c: Core): void {
  c.store.metaDirty = true
}
