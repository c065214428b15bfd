import type { Clock } from './clock.js'
import { call, type Capability, type ClientBody, type Core, failure, fromWire, type GetHistory, type HistoryPage, isLive, type ServerFrame } from './core/index.js'
import type { CallOptions } from './api.js'
import type { CoreDriver } from './coredriver.js'
import { isPetrelError, PetrelError, refused } from './errors.js'
import { callHttp, type Fetch } from './http.js'
import { randomId } from './randomid.js'
import type { TokenCache } from './token.js'
import { deferred, Slots, unlessAborted } from './wait.js'
import { takesRequestId } from './wire/calls_gen.js'

const maxAsked = 4 // requests of the application under way at once
const retryWaitMs = 1000 // after a refusal that names no time
const answerMs = 30_000 // how long a call waits by default, the wait for a connection included

/**
 * Sends the requests of the application, over the connection or over HTTP: at most 4 at once, each when the
 * client is live. If a connection ends before the answer, history and call ask again.
 */
export class Requests {
  readonly #o: { readonly driver: CoreDriver; readonly clock: Clock; readonly fetch: Fetch; readonly api: string; readonly token: TokenCache }
  readonly #slots = new Slots(maxAsked)
  #up = deferred<void>() // resolved when the client is live
  #over = false

  constructor(o: { readonly driver: CoreDriver; readonly clock: Clock; readonly fetch: Fetch; readonly api: string; readonly token: TokenCache }) {
    this.#o = o
  }

  /** Starts waiting requests when the connection becomes live, and holds further ones back when it ends. */
  liveChanged(live: boolean): void {
    if (live) this.#up.resolve()
    else if (!this.#over) this.#up = deferred()
  }

  /** Rejects the requests that wait for a connection, and all later ones, with the error `why`. */
  end(why: PetrelError): void {
    this.#over = true
    this.#up.reject(why)
    this.#up = deferred() // a new promise, because the former one may be resolved already
    this.#up.reject(why)
  }

  /**
   * Runs f with a signal, and aborts it with the signal of the application or after timeoutMs. Then the result
   * is rejected, even if f goes on.
   */
  async within<T>({ signal, timeoutMs = answerMs }: CallOptions, f: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const end = new AbortController()
    const abort = (): void => end.abort(signal?.reason)
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort)
    const off = timeoutMs < Infinity && this.#o.clock.after(timeoutMs, () => end.abort(refused('unavailable', `the server did not answer within ${timeoutMs} ms`, { retryable: true })))
    try {
      return await unlessAborted(f(end.signal), end.signal)
    } finally {
      if (off) off()
      signal?.removeEventListener('abort', abort)
    }
  }

  /**
   * Asks the server for a page of a conversation, even if the client holds its entries. It asks again when the
   * connection ends or the error is retryable. The error `damaged` is thrown at once, because an operator has to repair
   * the store first. Spec: P-5.2, P-9.5.
   */
  async history(q: GetHistory, signal: AbortSignal | undefined): Promise<HistoryPage> {
    for (;;) {
      try {
        const f = await this.request('', { history: q }, signal)
        if (f.kind === 'history') return f.history
        throw strange(f)
      } catch (why) {
        if (isConnectionLost(why)) continue
        if (!isPetrelError(why) || !why.retryable || why.code === 'damaged') throw why
        await unlessAborted(this.#pause(Math.max(why.retryAfterMs, retryWaitMs)), signal)
      }
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#o.clock.after(ms, resolve))
  }

  /**
   * Calls a method over the connection, or over HTTP if the server does not offer calls over connections. It
   * waits until the client is live.
   */
  async call(method: string, request: object, signal: AbortSignal | undefined): Promise<unknown> {
    const q = withRequestId(method, request)
    const json = JSON.stringify(q)
    for (;;) {
      try {
        const f = await this.request('call', { call: { method, json } }, signal)
        if (f.kind === 'answer') return JSON.parse(f.answer.json ?? '{}') as unknown
        throw strange(f)
      } catch (why) {
        if (isConnectionLost(why)) continue // a repeat does no harm: the request has a requestId, only reads, or sets the same value
        if (!isPetrelError(why) || why.code !== 'unsupported') throw why
        return callHttp(this.#o.fetch, this.#o.api, method, q, this.#o.token, signal)
      }
    }
  }

  /**
   * Waits until the client is live, sends one request over the connection, and waits for its answer. Spec: S-19.1.
   */
  request(need: Capability | '', body: ClientBody, signal: AbortSignal | undefined): Promise<ServerFrame> {
    return this.#slots.use(async () => {
      for (;;) {
        signal?.throwIfAborted()
        await unlessAborted(this.#up.promise, signal)
        const asked = this.#ask(need, body)
        if (!asked) continue
        const f = await unlessAborted(asked, signal)
        if (!f) throw new PetrelError(failure('link', connectionLost))
        if (f.kind === 'error') throw new PetrelError(fromWire(f.error))
        return f
      }
    }, signal)
  }

  #ask(need: Capability | '', body: ClientBody): Promise<ServerFrame | undefined> | undefined {
    const answer = deferred<ServerFrame | undefined>()
    return this.#o.driver.apply((core: Core) => {
      if (!isLive(core)) return undefined
      const why = call(core, need, body, answer.resolve)
      if (why) answer.reject(new PetrelError(why))
      return answer.promise
    })
  }
}

const connectionLost = 'the connection has ended'

/** Whether the connection ended before the answer of a request. The server may have done it. */
export function isConnectionLost(why: unknown): boolean {
  return isPetrelError(why) && why.kind === 'link' && why.message === connectionLost
}

function strange(f: ServerFrame): PetrelError {
  return new PetrelError(failure('link', `the server answered with ${f.kind}`))
}

/** Adds a random requestId, if the method takes one and the request has none. */
function withRequestId(method: string, request: object): object {
  return takesRequestId.has(method) ? { requestId: randomId(), ...request } : request
}
