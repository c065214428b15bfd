import type { Client } from '../src/index.js'

const limitMs = Number(process.env['PETREL_UNTIL_MS'] ?? 60_000) // only a fault meets it
const pollMs = 10
const idleTurns = 50 // of the event loop: more than a chain of promises takes

/** Waits until a client shows what is wanted. */
export async function until<T>(client: Client, shows: () => T | undefined | false): Promise<T> {
  for await (const _ of client.changes(AbortSignal.timeout(limitMs))) {
    const found = shows()
    if (found) return found
  }
  throw new Error(`the client does not show it: ${shows}`)
}

/** Waits until a condition holds of whose change nothing tells. */
export async function eventually(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = performance.now() + limitMs; !await holds();) {
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, pollMs))
  }
}

/** Lets everything run that waits for no timer and for no other process: then what is not there does not come. */
export async function idle(): Promise<void> {
  for (let turn = 0; turn < idleTurns; turn++) await new Promise((resolve) => setTimeout(resolve)) // also timers that are due at once
}

/** The end of p, which must come. */
export async function soon<T>(p: Promise<T> | T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('it takes too long')), limitMs)
  })
  return Promise.race([p, late]).finally(() => clearTimeout(timer))
}
