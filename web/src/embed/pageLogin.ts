import { Auth, browserTokens, type LoginAnswer, memoryTokens, PetrelError, SavedTokens, type TokenSource as SourceOfClient, type TokenStorage } from '@petrel-im/sdk'
import type { Login, TokenRequest, TokenSource } from '../../embed/petrel-chat.js'
import { randomId } from '../../ui/index.js'
import { browserName } from '../account/browserName.js'
import { keep, recall } from '../browserStorage.js'

export type { Login, TokenRequest, TokenSource }

/** Makes a PetrelError with a code of the catalogue, after which nothing is tried again. */
export function refused(code: string, message: string, hint = ''): PetrelError {
  return new PetrelError({ kind: 'refused', code, message, hint, settled: true, retryable: false, retryAfterMs: 0, requestId: '', head: 0 })
}

/**
 * The login that the page provides. A login with a refresh token is kept in this browser and refreshed; a token
 * alone is used as it is.
 */
export class PageLogin {
  ask: TokenSource
  readonly #user: string
  readonly #device: TokenRequest['device']
  readonly #saved: Promise<SavedTokens>

  constructor(o: { readonly server: string; readonly user: string; readonly account: string; readonly ask: TokenSource }) {
    this.ask = o.ask
    this.#user = o.user
    const id = recall(`${o.account}:device`) || randomId()
    keep(`${o.account}:device`, id)
    this.#device = { id, kind: 'web', name: browserName(navigator.userAgent) }
    this.#saved = storageOf(o.account).then((storage) => new SavedTokens(new Auth(o.server), storage, { login: (token, signal) => this.#login(token, signal) }))
  }

  /** The token source of the client. */
  readonly token: SourceOfClient = async (refusedToken, signal) => (await this.#saved).token(refusedToken, signal)

  /** Forgets the login. The next token is asked of the page. */
  async forget(): Promise<void> {
    await (await this.#saved).save(undefined)
  }

  async #login(refusedToken: string, signal: AbortSignal): Promise<LoginAnswer> {
    const { ask } = this
    const answer = typeof ask === 'function' ? await ask({ device: this.#device, refused: refusedToken, signal }) : ask
    if (answer === '') throw refused('unauthenticated', 'the page gives no token', 'give <petrel-chat> a token, or a token-url')
    if (typeof answer === 'string') return { accessToken: answer }
    if (answer.user && answer.user !== this.#user) throw refused('invalid', `the login belongs to ${answer.user}, but the attribute user is ${this.#user}`)
    const { accessExpiresMs = 0, refreshExpiresMs = 0 } = answer
    return { ...answer, user: this.#user, accessExpiresMs: String(accessExpiresMs), refreshExpiresMs: String(refreshExpiresMs) }
  }
}

/** Returns where the login is kept: in the database of the browser, or in memory if there is none. */
async function storageOf(account: string): Promise<TokenStorage> {
  try {
    const storage = browserTokens(account)
    await storage.read()
    return storage
  } catch {
    return memoryTokens()
  }
}

/**
 * Returns a token source that asks the back end of the page: a POST with the device, answered by a login or
 * {"token"}.
 */
export function fromAddress(address: string): TokenSource {
  return async ({ device, signal }) => {
    const answer = await fetch(address, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ device }), signal })
    if (answer.status === 401 || answer.status === 403) throw refused('unauthenticated', `${address} answers ${answer.status}`, 'log in to the page')
    if (!answer.ok) throw new Error(`${address} answers ${answer.status}`)
    const login = await answer.json() as Login & { readonly token?: string }
    return login.token ?? login
  }
}
