import { here } from './browser.js'
import { type Clock, systemClock } from './clock.js'
import { refusal } from './core/index.js'
import { isPetrelError, PetrelError, refused } from './errors.js'
import { apiAddress, type Fetch, post } from './http.js'
import { Database } from './indexeddb.js'
import type { Locks } from './tabs/tab.js'
import { randomId } from './randomid.js'
import type { TokenSource } from './token.js'
import { unlessAborted } from './wait.js'
import type { DeviceRefJson, LoginResponseJson } from './wire/frames_gen.js'

/** The tokens of one login of one device. Spec: P-11.3. */
export interface Tokens {
  readonly user: string
  readonly device: string
  readonly access: string
  readonly accessExpiresMs: number
  readonly refresh: string
  readonly refreshExpiresMs: number
  /** Of the refresh to come: with it the same refresh, by another tab or after a crash, gets the same answer. */
  readonly requestId: string
}

/** Who logs in, with what proof, and where. */
export interface Login {
  /** 'default' by itself. */
  readonly tenant?: string
  readonly user: string
  readonly password: string
  readonly device?: DeviceRefJson
}

export interface Registration extends Login {
  readonly displayName?: string
  readonly invitation?: string
}

/** Turns proofs of identity into tokens, over HTTP. Refusals are PetrelErrors. Spec: P-11. */
export class Auth {
  readonly #base: string
  readonly #fetch: Fetch

  /** url is that of the server, as the client has it. */
  constructor(url: string, send: Fetch = (address, init) => fetch(address, init)) {
    this.#base = apiAddress(url)
    this.#fetch = send
  }

  /** Makes a user with a password and logs their first device in. */
  register(r: Registration): Promise<Tokens> {
    return this.#tokens('Register', r)
  }

  /** Logs a device in with a password. */
  login(r: Login): Promise<Tokens> {
    return this.#tokens('Login', r)
  }

  /** Logs a device in with a JWT of the identity provider. */
  exchange(r: { readonly tenant?: string; readonly token: string; readonly device?: DeviceRefJson }): Promise<Tokens> {
    return this.#tokens('Exchange', r)
  }

  /** Turns a refresh token into a new pair. Store that before it is used: a refresh token works once. */
  refresh({ refresh, requestId }: Tokens, signal?: AbortSignal): Promise<Tokens> {
    return this.#tokens('Refresh', { refreshToken: refresh, requestId }, signal)
  }

  async #tokens(method: string, request: object, signal?: AbortSignal): Promise<Tokens> {
    return tokensOf(await post(this.#fetch, this.#base, `petrel.v1.AuthService/${method}`, { requestId: randomId(), ...request }, '', signal) as LoginResponseJson)
  }
}

/** A login as the API answers with it. */
export type LoginAnswer = LoginResponseJson

function tokensOf({ user = '', device = '', accessToken = '', accessExpiresMs = '0', refreshToken = '', refreshExpiresMs = '0' }: LoginAnswer): Tokens {
  return {
    user, device, access: accessToken, accessExpiresMs: Number(accessExpiresMs), refresh: refreshToken, refreshExpiresMs: Number(refreshExpiresMs),
    requestId: randomId(),
  }
}

/** Where the tokens of a login are kept. */
export interface TokenStorage {
  read(): Promise<Tokens | undefined>
  /** They survive a loss of power once it has ended. */
  write(tokens: Tokens | undefined): Promise<void>
  /** Runs f while no other tab or process does the same. */
  alone<T>(f: () => Promise<T>): Promise<T>
}

/** Tokens that are kept for as long as the page or process lives. */
export function memoryTokens(): TokenStorage {
  let tokens: Tokens | undefined
  return {
    read: async () => tokens,
    write: async (t) => {
      tokens = t
    },
    alone: inTurn(),
  }
}

/**
 * Tokens in the database of the browser, which all tabs share. Where there is none, as on a
 * server that renders the page, they are kept in memory.
 */
export function browserTokens(account: string, factory: IDBFactory | undefined = here().indexedDB, locks: Locks | undefined = browserLocks()): TokenStorage {
  if (!factory) return memoryTokens()
  const name = `petrel-login:${account}`
  let db = new Database(name, factory)
  const turn = inTurn()
  return {
    read: async () => (await db.load())[0]?.value as Tokens | undefined,
    write: async (t) => {
      if (t) return db.write([{ key: 'tokens', value: t as never }], true)
      await db.wipe() // its name says who was logged in
      db = new Database(name, factory)
    },
    // Without locks two tabs may refresh at once; they have the same requestId, and get the same answer.
    alone: (f) => locks ? locked(locks, name, f) : turn(f),
  }
}

/**
 * Runs f with a lock. A tab that is frozen keeps its lock; after a while it is taken from it.
 * The refreshes of both have the same requestId then, and the same answer.
 */
async function locked<T>(locks: Locks, name: string, f: () => Promise<T>): Promise<T> {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), lockMs)
  let begun = false
  try {
    return await locks.request(name, { signal: late.signal }, () => {
      begun = true
      clearTimeout(timer)
      return f()
    })
  } catch (why) {
    if (begun || !late.signal.aborted) throw why
    return locks.request(name, { steal: true }, f)
  }
}

function browserLocks(): Locks | undefined {
  return (globalThis as { navigator?: { locks?: unknown } }).navigator?.locks as Locks | undefined
}

/** Runs one function at a time. */
export function inTurn(): <T>(f: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (f) => {
    const next = last.then(f)
    last = next.catch(() => {})
    return next
  }
}

const refreshAheadMs = 60_000 // before the end of an access token another one is asked for
const renewMs = 10_000 // for which a refresh, and the login after it, wait for the server: other tabs wait for the lock
const lockMs = renewMs + 2000 // after which whoever has the lock is frozen; a client waits 15 s for a token

/** How tokens are kept. */
export interface SavedTokensOptions {
  /**
   * Asks the back end of the application to log the device in, with AdminService/MintToken,
   * and returns the answer. It is called when no tokens are kept, or they are void. An answer
   * without a refresh token is not kept. As for a TokenSource, `refused` is the token that
   * the server has just refused. After 10 s, a refresh that came before included, the signal is
   * aborted, and the answer comes too late: other tabs wait.
   *
   * undefined: nobody is logged in to the application, and the client ends, with
   * `unauthenticated` or the code for which the tokens are void. After an error that is no
   * PetrelError, and an answer without an accessToken, the client asks again.
   */
  readonly login?: (refused: string, signal: AbortSignal) => Promise<LoginAnswer | undefined>
  readonly clock?: Clock
}

/** Codes of a refresh after which the tokens are of no use any more. */
const voided = new Set<string>(['unauthenticated', 'revoked', 'replaced', 'refresh_reused'])

/** The tokens of a login, which are refreshed by themselves: `token` is a source for a client. */
export class SavedTokens {
  readonly #auth: Auth
  readonly #storage: TokenStorage
  readonly #clock: Clock
  readonly #ask: SavedTokensOptions['login']

  constructor(auth: Auth, storage: TokenStorage, { login, clock = systemClock() }: SavedTokensOptions = {}) {
    this.#auth = auth
    this.#storage = storage
    this.#clock = clock
    this.#ask = login
  }

  /** The tokens that are stored; undefined: nobody has logged in. */
  read(): Promise<Tokens | undefined> {
    return this.#storage.read()
  }

  /** Keeps the tokens of a login, in the place of those of an earlier one; undefined: of none. */
  save(tokens: Tokens | undefined): Promise<void> {
    return this.#storage.alone(() => this.#storage.write(tokens))
  }

  /**
   * Refreshes when the access token was refused or is about to expire. While the server
   * cannot be reached, one that has not expired will do. Spec: S-3.4.
   */
  readonly token: TokenSource = (old, signal) => this.#storage.alone(async () => {
    signal.throwIfAborted() // nobody waits for it any more
    const late = new AbortController()
    const off = this.#clock.after(renewMs, () => late.abort(refused('unavailable', `no token within ${renewMs / 1000} s`, { retryable: true })))
    try {
      return await this.#renewed(old, late.signal)
    } finally {
      off()
    }
  })

  /** A token that works. The wait for the server ends with the signal; what it answers later is not kept. */
  async #renewed(old: string, signal: AbortSignal): Promise<string> {
    const have = await this.#storage.read()
    if (!have) return this.#login(old, signal, () => new PetrelError(refusal('unauthenticated', 'nobody has logged in')))
    const now = this.#clock.now()
    const works = have.access !== old && now < have.accessExpiresMs
    if (works && now + refreshAheadMs < have.accessExpiresMs) return have.access
    try {
      const next = await unlessAborted(this.#auth.refresh(have, signal), signal)
      const now = await this.#storage.read()
      if (now && now.refresh !== have.refresh) return now.access // it took so long that another tab has done it
      await this.#storage.write(next)
      return next.access
    } catch (why) {
      if (works && isPetrelError(why) && (why.code === '' || why.retryable)) return have.access
      if (!isPetrelError(why) || !voided.has(why.code)) throw why
      return this.#login(old, signal, () => why)
    }
  }

  /** Has the back end log the device in; one tab at a time, for a login makes the former one of the same device void. */
  async #login(old: string, signal: AbortSignal, none: () => PetrelError): Promise<string> {
    if (!this.#ask) throw none()
    const answer = await unlessAborted(this.#ask(old, signal), signal)
    if (!answer) throw none()
    if (!answer.accessToken) throw new Error('the answer of the login has no accessToken')
    const tokens = tokensOf(answer)
    if (tokens.refresh !== '') await this.#storage.write(tokens)
    return tokens.access
  }
}
