import type { Client } from '../src/index.js'

/** Waits until a client shows what is wanted. */
export async function until<T>(client: Client, shows: () => T | undefined | false): Promise<T> {
  for await (const _ of client.changes()) {
    const found = shows()
    if (found) return found
  }
  throw new Error('the client has ended')
}
