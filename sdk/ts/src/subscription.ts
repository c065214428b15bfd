import { type Change, type Gathered, isEmpty, merge, noChange } from './core/index.js'

export type Listener = (change: Change) => void

/** The listeners for the changes of a client. */
export class Listeners {
  readonly #all = new Set<{ readonly f: Listener; readonly end: () => void }>()
  #over = false

  /**
   * Calls f with every change, and in a microtask with the result of `first`, until the returned function is called.
   * `end` is called when the client closes.
   */
  add(f: Listener, first: () => Change, end: () => void): () => void {
    const one = { f, end }
    this.#all.add(one)
    queueMicrotask(() => {
      this.#tellOne(one, first())
      if (this.#over) end()
    })
    return () => void this.#all.delete(one)
  }

  /** Tells all listeners that no change will follow. */
  end(): void {
    this.#over = true
    for (const one of this.#all) one.end()
  }

  tell(change: Change): void {
    for (const one of [...this.#all]) this.#tellOne(one, change)
  }

  #tellOne(one: { readonly f: Listener; readonly end: () => void }, change: Change): void {
    if (!this.#all.has(one)) return // another listener has just removed it
    try {
      one.f(change)
    } catch (why) { // an error in one listener must not stop the others
      queueMicrotask(() => {
        throw why
      })
    }
  }
}

/**
 * Returns the changes as an iterator, for one reader. Changes that the reader has not taken yet are merged, so
 * at most one name for each conversation waits. The iterator ends when signal is aborted, the loop is left, or
 * the client closes.
 */
export function changesOf(subscribe: (f: Listener, end: () => void) => () => void, signal?: AbortSignal): AsyncGenerator<Change, void, void> {
  let pending: Gathered = noChange()
  let wake = (): void => {}
  let unsubscribe = (): void => {}
  let left = false
  let over = false // no change follows the pending one
  const stop = (): void => {
    left = true
    signal?.removeEventListener('abort', stop)
    unsubscribe()
    wake()
  }
  async function* read(): AsyncGenerator<Change, void, void> {
    if (signal?.aborted) return
    signal?.addEventListener('abort', stop)
    unsubscribe = subscribe((change) => {
      merge(pending, change)
      wake()
    }, () => {
      over = true
      wake()
    })
    while (!left) {
      if (isEmpty(pending)) {
        if (over) return stop()
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        continue
      }
      const change = pending
      pending = noChange()
      yield change
    }
  }
  return leaving(read(), stop)
}

/**
 * Returns a generator that calls `stop` as soon as its reader leaves, even while the generator waits. Without this, it
 * would end only after the wait.
 */
export function leaving<T>(all: AsyncGenerator<T, void, void>, stop: () => void): AsyncGenerator<T, void, void> {
  const leave = all.return.bind(all)
  all.return = (value) => {
    stop()
    return leave(value)
  }
  return all
}
