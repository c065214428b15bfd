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
  /**
   * The id of the next refresh. A repeat of that refresh, by another tab or after a crash, has the same id and gets
   * the same answer.
   */
  readonly requestId: string
}

/** The user, password and device of a login. */
export interface Login {
  /** 'default' if absent. */
  readonly tenant?: string
  readonly user: string
  readonly password: string
  readonly device?: DeviceRefJson
  /** Takes back that the user has deleted the account, after account_leaving. Spec: P-14.26. */
  readonly restore?: boolean
}

export interface Registration extends Omit<Login, 'restore'> {
  readonly displayName?: string
  readonly invitation?: string
}

/** Logs devices in over HTTP, and returns their tokens. Refusals are PetrelErrors. Spec: P-11. */
export class Auth {
  readonly #base: string
  readonly #fetch: Fetch

  /** `url` is the address of the server, as in ClientOptions. */
  constructor(url: string, send: Fetch = (address, init) => fetch(address, init)) {
    this.#base = apiAddress(url)
    this.#fetch = send
  }

  /** Creates a user with a password, and logs the first device of the user in. */
  register(r: Registration): Promise<Tokens> {
    return this.#tokens('Register', r)
  }

  /** Logs a device in with a password. */
  login(r: Login): Promise<Tokens> {
    return this.#tokens('Login', r)
  }

  /** Logs a device in with a JWT of the identity provider. */
  exchange(r: { readonly tenant?: string; readonly token: string; readonly device?: DeviceRefJson; readonly restore?: boolean }): Promise<Tokens> {
    return this.#tokens('Exchange', r)
  }

  /** Exchanges a refresh token for new tokens. Store them before you use them: a refresh token works once. */
  refresh({ refresh, requestId }: Tokens, signal?: AbortSignal): Promise<Tokens> {
    return this.#tokens('Refresh', { refreshToken: refresh, requestId }, signal)
  }

  /**
   * Deletes the account of the user of an access token, and returns until when a login with `restore` takes that back,
   * in Unix milliseconds. A client whose connection is open has it ended before the answer comes. Spec: P-14.25.
   */
  async deleteAccount(token: string, password = ''): Promise<number> {
    return Number((await post(this.#fetch, this.#base, 'petrel.v1.AccountService/DeleteAccount', { password }, token) as { readonly restorableUntilMs?: string }).restorableUntilMs)
  }

  async #tokens(method: string, request: object, signal?: AbortSignal): Promise<Tokens> {
    return tokensOf(await post(this.#fetch, this.#base, `petrel.v1.AuthService/${method}`, { requestId: randomId(), ...request }, '', signal) as LoginResponseJson)
  }
}

/** The answer of the API to a login. */
export type LoginAnswer = LoginResponseJson

function tokensOf({ user = '', device = '', accessToken = '', accessExpiresMs = '0', refreshToken = '', refreshExpiresMs = '0' }: LoginAnswer): Tokens {
  return {
    user, device, access: accessToken, accessExpiresMs: Number(accessExpiresMs), refresh: refreshToken, refreshExpiresMs: Number(refreshExpiresMs),
    requestId: randomId(),
  }
}

/** A place where the tokens of a login are kept. */
export interface TokenStorage {
  read(): Promise<Tokens | undefined>
  /** Stores the tokens; undefined removes them. Once the promise is resolved they survive a loss of power. */
  write(tokens: Tokens | undefined): Promise<void>
  /** Runs f while no other tab or process runs such a function. */
  alone<T>(f: () => Promise<T>): Promise<T>
}

/** Keeps the tokens in memory, until the page or process ends. */
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
 * Keeps the tokens in the database of the browser, which all tabs share. Without a database, for example on a
 * server that renders the page, it keeps them in memory.
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
      await db.wipe() // the name of the database shows who was logged in
      db = new Database(name, factory)
    },
    // Without locks two tabs may refresh at once. They send the same requestId, and get the same answer.
    alone: (f) => locks ? locked(locks, name, f) : turn(f),
  }
}

/**
 * Runs f with a lock. A frozen tab keeps its lock, so after lockMs the lock is stolen. Then both tabs may refresh:
 * they send the same requestId, and get the same answer.
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

/** Returns a function that runs the functions passed to it one after the other, and returns their results. */
export function inTurn(): <T>(f: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (f) => {
    const next = last.then(f)
    last = next.catch(() => {})
    return next
  }
}

const refreshAheadMs = 60_000 // a token is refreshed this long before it expires
const renewMs = 10_000 // how long a refresh, and the login after it, may take: other tabs wait for the lock
const lockMs = renewMs + 2000 // a tab that holds the lock longer is frozen; a client waits 15 s for a token

/** The options of SavedTokens. */
export interface SavedTokensOptions {
  /**
   * Asks the back end of the application to log the device in with AdminService/MintToken, and returns its answer.
   * It is called when no tokens are kept, or the kept ones are void. `refused` is the token that the server has
   * just refused, as for a TokenSource. An answer without a refresh token is not kept. The signal is aborted 10 s
   * after the token was asked for; a later answer is ignored, because other tabs wait.
   *
   * It returns undefined if nobody is logged in to the application. Then the client ends with `unauthenticated`, or
   * with the code for which the tokens are void. After an error that is not a PetrelError, or an answer without an
   * accessToken, the client asks again.
   */
  readonly login?: (refused: string, signal: AbortSignal) => Promise<LoginAnswer | undefined>
  readonly clock?: Clock
}

/** Codes of a refused refresh that make the tokens void. */
const voided = new Set<string>(['unauthenticated', 'revoked', 'replaced', 'refresh_reused'])

/** The kept tokens of a login, which are refreshed when needed. `token` is a source for a client. */
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

  /** Returns the kept tokens; undefined: nobody has logged in. */
  read(): Promise<Tokens | undefined> {
    return this.#storage.read()
  }

  /** Keeps the tokens of a login in place of former ones; undefined removes them. */
  save(tokens: Tokens | undefined): Promise<void> {
    return this.#storage.alone(() => this.#storage.write(tokens))
  }

  /**
   * Returns the access token. It refreshes the tokens if the access token was refused or expires within a minute. If
   * the refresh fails for the moment, an access token that was neither refused nor has expired is returned. If no
   * tokens are kept, or they are void, it asks the back end for a login. Spec: S-3.4.
   */
  readonly token: TokenSource = (old, signal) => this.#storage.alone(async () => {
    signal.throwIfAborted() // nobody waits for the token any more
    const late = new AbortController()
    const off = this.#clock.after(renewMs, () => late.abort(refused('unavailable', `no token within ${renewMs / 1000} s`, { retryable: true })))
    try {
      return await this.#renewed(old, late.signal)
    } finally {
      off()
    }
  })

  /**
   * Returns the kept access token, or one from a refresh or a login. When the signal is aborted it stops waiting for
   * the server, and ignores a later answer.
   */
  async #renewed(old: string, signal: AbortSignal): Promise<string> {
    const have = await this.#storage.read()
    if (!have) return this.#login(old, signal, () => new PetrelError(refusal('unauthenticated', 'nobody has logged in')))
    const now = this.#clock.now()
    const works = have.access !== old && now < have.accessExpiresMs
    if (works && now + refreshAheadMs < have.accessExpiresMs) return have.access
    try {
      const next = await unlessAborted(this.#auth.refresh(have, signal), signal)
      const now = await this.#storage.read()
      if (now && now.refresh !== have.refresh) return now.access // another tab has refreshed meanwhile
      await this.#storage.write(next)
      return next.access
    } catch (why) {
      if (works && isPetrelError(why) && (why.code === '' || why.retryable)) return have.access
      if (!isPetrelError(why) || !voided.has(why.code)) throw why
      return this.#login(old, signal, () => why)
    }
  }

  /**
   * Asks the back end to log the device in. Only one tab does so at a time, because a login makes the former one of
   * the device void.
   */
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
