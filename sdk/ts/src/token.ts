import { type Failure, refusal } from './core/index.js'
import { failureOf, PetrelError, refused } from './errors.js'
import { unlessAborted } from './wait.js'

/**
 * Returns the access token for a hello or a call. `refused` is the token that the server has just refused; '': none.
 * A source without another token throws, or returns the refused token again, which ends the run with
 * `unauthenticated`. A PetrelError of the kind refused that is not retryable ends the run too; after any other error
 * the client tries again. Without an answer within 15 s the signal is aborted, and the client tries again.
 */
export type TokenSource = (refused: string, signal: AbortSignal) => Promise<string> | string

const timeoutMs = 15_000

/** Asks a source for tokens, one request at a time. */
export class TokenCache {
  readonly #source: TokenSource
  #turn: Promise<unknown> = Promise.resolve()

  constructor(source: TokenSource | string) {
    if (!source) throw refused('invalid', 'the option token is missing', { hint: 'give a token, or a function that returns one', settled: true })
    this.#source = typeof source === 'string' ? () => source : source
  }

  /** Returns a token, or the reason why there is none. */
  get(refused: string): Promise<string | Failure> {
    const next = this.#turn.then(() => this.#ask(refused))
    this.#turn = next
    return next
  }

  async #ask(refused: string): Promise<string | Failure> {
    try {
      const token = await within(timeoutMs, (signal) => this.#source(refused, signal))
      if (refused !== '' && token === refused) return refusal('unauthenticated', 'the token is not valid', { hint: 'log in again' })
      return token
    } catch (why) {
      return failureOf(why)
    }
  }
}

/** Runs f with a signal that is aborted after ms. Then it rejects, even if f goes on. */
async function within<T>(ms: number, f: (signal: AbortSignal) => Promise<T> | T): Promise<T> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(new Error(`no token within ${ms / 1000} s`)), ms)
  try {
    return await unlessAborted((async () => f(late.signal))(), late.signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Returns the token, or throws the failure. */
export function orThrow(token: string | Failure): string {
  if (typeof token !== 'string') throw new PetrelError(token)
  return token
}
