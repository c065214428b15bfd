/** Returns the result of p, or rejects with the signal's reason if the signal is aborted first. */
export function unlessAborted<T>(p: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return p
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    p.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** A promise with its resolvers. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (why: unknown) => void
}

export function deferred<T>(): Deferred<T> {
  let resolve: (value: T) => void = () => {}
  let reject: (why: unknown) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  promise.catch(() => {}) // no unhandled rejection if nobody waits for it
  return { promise, resolve, reject }
}

/** Limits the functions that run at the same time to n. Others wait in order. */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(n: number) {
    this.#free = n
  }

  /** Waits for a slot and keeps it while f runs. */
  async use<T>(f: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0) this.#free--
    else await this.#turn(signal)
    try {
      return await f()
    } finally {
      this.#leave()
    }
  }

  async #turn(signal: AbortSignal | undefined): Promise<void> {
    const mine = deferred<void>()
    this.#waiting.push(mine.resolve)
    try {
      await unlessAborted(mine.promise, signal)
    } catch (why) {
      const i = this.#waiting.indexOf(mine.resolve)
      if (i >= 0) this.#waiting.splice(i, 1)
      else this.#leave() // it was given a slot at the same moment
      throw why
    }
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}
