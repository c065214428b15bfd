import { decode, failure, fromWire, refusal } from './core/index.js'
import { isPetrelError, PetrelError, refused } from './errors.js'
import { orThrow, type TokenCache } from './token.js'

export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Returns the address of the HTTP API at the host of a WebSocket URL. */
export function apiAddress(url: string): string {
  if (!/^(ws|http)s?:\/\/[^/]/.test(url)) {
    throw refused('invalid', `the option url is ${url}`, { hint: 'give an address like wss://chat.example.org', settled: true })
  }
  return new URL(url.replace(/^ws/, 'http')).origin
}

/**
 * Makes one call of the API over HTTP. If the token is refused, it asks for another one and tries once more.
 * Spec: P-12.2.
 */
export async function callHttp(fetch: Fetch, base: string, method: string, request: object, token: TokenCache, signal?: AbortSignal): Promise<unknown> {
  let used = orThrow(await token.get(''))
  try {
    return await post(fetch, base, method, request, used, signal)
  } catch (why) {
    if (!isPetrelError(why) || why.code !== 'unauthenticated') throw why
    used = orThrow(await token.get(used))
    return post(fetch, base, method, request, used, signal)
  }
}

/** Makes one attempt of a call. token is '' for calls that need none. */
export async function post(fetch: Fetch, base: string, method: string, request: object, token: string, signal?: AbortSignal): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json', ...(token === '' ? {} : { Authorization: `Bearer ${token}` }) }
  let answer: Response
  let text: string
  try {
    answer = await fetch(`${base}/${method}`, { method: 'POST', headers, body: JSON.stringify(request), ...(signal ? { signal } : {}) })
    text = await answer.text()
  } catch (why) {
    signal?.throwIfAborted()
    throw new PetrelError(failure('link', `call ${method}: ${String(why)}`), { cause: why })
  }
  if (answer.ok) return JSON.parse(text) as unknown
  throw refusalOf(method, answer, text)
}

/** Reads the error of a refused call. Spec: P-12.3, P-12.5. */
function refusalOf(method: string, answer: Response, text: string): PetrelError {
  const code = answer.headers.get('Petrel-Error')
  try {
    const { details } = JSON.parse(text) as { details?: { type?: string; debug?: unknown }[] }
    const error = details?.find((d) => d.type === 'petrel.v1.Error')?.debug
    const f = error === undefined ? undefined : decode({ error })
    if (f?.kind === 'error') return new PetrelError(fromWire(f.error))
  } catch {
    // The answer is not from a Petrel server: the error has only the HTTP status.
  }
  const message = `call ${method}: HTTP ${answer.status}`
  return new PetrelError(code ? refusal(code, message) : failure('link', message))
}
