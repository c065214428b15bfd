import { type Change, type Gathered, isEmpty, merge, noChange } from './core/index.js'

export type Listener = (change: Change) => void

/** Those whom a client tells what has changed. */
export class Listeners {
  readonly #all = new Set<{ readonly f: Listener }>()

  /** Has f told of every change, and of `first` before. The function that it returns ends that. */
  add(f: Listener, first: () => Change): () => void {
    const one = { f }
    this.#all.add(one)
    queueMicrotask(() => this.#tellOne(one, first()))
    return () => void this.#all.delete(one)
  }

  tell(change: Change): void {
    for (const one of [...this.#all]) this.#tellOne(one, change)
  }

  #tellOne(one: { readonly f: Listener }, change: Change): void {
    if (!this.#all.has(one)) return // it was ended, by another listener perhaps
    try {
      one.f(change)
    } catch (why) { // the error of one must not keep it from the others
      queueMicrotask(() => {
        throw why
      })
    }
  }
}

/**
 * The changes as an iterator, for one reader. What the reader has not taken is merged, so at
 * most one name for each conversation waits. It ends when signal is aborted, or the loop is left.
 */
export async function* changesOf(subscribe: (f: Listener) => () => void, signal?: AbortSignal): AsyncGenerator<Change, void, void> {
  let pending: Gathered = noChange()
  let wake = (): void => {}
  const end = subscribe((change) => {
    merge(pending, change)
    wake()
  })
  const onAbort = (): void => wake()
  signal?.addEventListener('abort', onAbort)
  try {
    while (!signal?.aborted) {
      if (isEmpty(pending)) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
        continue
      }
      const change = pending
      pending = noChange()
      yield change
    }
  } finally {
    signal?.removeEventListener('abort', onAbort)
    end()
  }
}
