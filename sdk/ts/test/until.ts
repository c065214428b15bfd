import type { Client } from '../src/index.js'

const limitMs = Number(process.env['PETREL_UNTIL_MS'] ?? 60_000) // only a fault meets it

/** Waits until a client shows what is wanted. */
export async function until<T>(client: Client, shows: () => T | undefined | false): Promise<T> {
  for await (const _ of client.changes(AbortSignal.timeout(limitMs))) {
    const found = shows()
    if (found) return found
  }
  throw new Error(`the client does not show it: ${shows}`)
}

/** The end of p, which must come. */
export async function soon<T>(p: Promise<T> | T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('it takes too long')), limitMs)
  })
  return Promise.race([p, late]).finally(() => clearTimeout(timer))
}
