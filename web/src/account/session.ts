import { Auth, browserStore, browserTokens, Client, isPetrelError, memoryTokens, SavedTokens, type Tokens, type TokenStorage } from '@petrel-im/sdk'
import { randomId } from '../../ui/index.js'
import { version } from '../pageMeta.js'
import { forgetAccount, keep, onKept, recall } from '../browserStorage.js'
import { addAccount, allAccounts, removeAccount } from './accounts.js'
import { browserName } from './browserName.js'
import { keptProfiles } from './keptProfiles.js'
import type { Session } from './SessionContext.js'
import { watchFor } from './presenceWatch.js'

const tenant = 'default'
const answerMs = 10_000 // for an access token
const forEver = Number.MAX_SAFE_INTEGER

/** The user and password of a login. */
export interface Credentials {
  readonly user: string
  readonly password: string
  /** Takes back that the person has deleted the account. */
  readonly restore?: boolean
}

/** A session that is opening or open. */
interface Opening {
  readonly promise: Promise<Session | undefined>
  session: Session | undefined | null // null: the promise is not resolved yet
}

/** The sessions of this page, at most one for each account that is logged in at this browser. */
class SessionStore {
  readonly #auth = new Auth(location.origin)
  readonly #openings = new Map<string, Opening>() // by account
  readonly #leaving = new Set<string>() // accounts whose logout is under way here
  readonly #unstored = new Set<string>() // accounts whose store has failed: this page uses none for them
  readonly #memory = new Map<string, TokenStorage>() // tokens of accounts that the browser cannot keep

  constructor() {
    onKept((name) => { // another tab may have logged in to an account without a session here
      if (name !== 'accounts') return
      for (const [user, { session }] of this.#openings) if (session === undefined) this.#openings.delete(user)
    })
  }

  /** Returns the session of an account; undefined: the account is not logged in here. */
  open(user: string): Promise<Session | undefined> {
    let opening = this.#openings.get(user)
    if (!opening) {
      const made: Opening = opening = { promise: this.#make(user), session: null }
      this.#openings.set(user, made)
      made.promise.then((session) => { made.session = session }, () => this.#openings.delete(user))
    }
    return opening.promise
  }

  /** Returns the session of an account, if it is open; null: it is opening; undefined: there is none. */
  opened(user: string): Session | undefined | null {
    return this.#openings.get(user)?.session
  }

  async #make(user: string): Promise<Session | undefined> {
    if (!allAccounts().includes(user)) return undefined // reading the tokens would create a database for them
    const kept = this.#tokensOf(user)
    const make = (of: string): Client => new Client({
      url: location.origin, token: async (old, signal) => (await kept).tokens.token(old, signal), deviceKind: 'web', client: version,
      store: browserStore(`${tenant}/${user}`, this.#unstored.has(user) ? {} : undefined), newest: 40, ...(of === '' ? {} : { device: of }),
    })
    // The tokens name the device. The store of the account is opened while they are read, with the device id that
    // is kept separately: usually it is the same one.
    const device = recall(`${user}:device`)
    let client: Client | undefined = make(device)
    client.open().catch(() => {}) // it is opened again below, where an error counts
    const { have } = await kept
    if (have?.device !== device) {
      await client.close().catch(() => {}) // nothing was written yet
      client = undefined
    }
    if (!have) {
      removeAccount(user)
      return undefined
    }
    client ??= make(have.device)
    await client.open()
    const session: Session = {
      user, account: user, client, profiles: keptProfiles(client, user), watch: watchFor(client), logOut: () => this.#logOut(session), deleteAccount: (password) => this.#delete(session, password),
    }
    return session
  }

  /**
   * Returns the tokens of an account, and their present value. If the browser cannot keep them, they are kept in
   * memory while the page is open.
   */
  async #tokensOf(user: string): Promise<{ readonly tokens: SavedTokens; readonly have: Tokens | undefined }> {
    let storage = this.#memory.get(user)
    let have: Tokens | undefined
    try {
      storage ??= browserTokens(`${tenant}/${user}`)
      have = await storage.read()
    } catch {
      storage = memoryTokens()
      this.#memory.set(user, storage)
    }
    return { tokens: new SavedTokens(this.#auth, storage), have }
  }

  /** Lets the account go on in this page without a store. The content of the store stays. */
  async goOnWithoutStore(s: Session): Promise<void> {
    this.#unstored.add(s.user)
    await s.client.close().catch(() => {}) // closing may fail as well, because the store has failed
    this.#openings.delete(s.user)
  }

  /**
   * Logs in by the user id as it was typed, or else in small letters, because telephones begin a word with a
   * capital. It returns the user id.
   */
  async logIn(c: Credentials): Promise<string> {
    const tokens = await this.#auth.login({ ...c, device: deviceOf(c.user) }).catch((why: unknown) => {
      const user = c.user.toLowerCase()
      if (user === c.user || !isPetrelError(why) || why.code !== 'bad_credentials') throw why
      return this.#auth.login({ ...c, user, device: deviceOf(user) })
    })
    await this.#admit(tokens)
    return tokens.user
  }

  async register(c: Credentials & { readonly displayName: string; readonly invitation: string }): Promise<string> {
    const { displayName, invitation } = c
    await this.#admit(await this.#auth.register({
      user: c.user, password: c.password, device: deviceOf(c.user), ...(displayName ? { displayName } : {}), ...(invitation ? { invitation } : {}),
    }))
    return c.user
  }

  async #admit(tokens: Tokens): Promise<void> {
    await (await this.#tokensOf(tokens.user)).tokens.save(tokens)
    this.#openings.delete(tokens.user) // the former session has the old tokens
    addAccount(tokens.user)
  }

  /**
   * Logs in with an access token from a link of `petrel demo`, and returns its user; '': the server refuses it. If
   * the account has a login of its own here, that one stays.
   */
  async admitToken(token: string): Promise<string> {
    const user = token.split('.')[1] ?? ''
    if (allAccounts().includes(user) && (await this.#tokensOf(user)).have?.refresh) return user
    if (await userOf(token).catch(() => '') !== user) return ''
    await this.#admit({ user, device: '', access: token, accessExpiresMs: forEver, refresh: '', refreshExpiresMs: 0, requestId: '' })
    return user
  }

  /** Logs out: the server voids the tokens, and all data of the account is removed here. */
  async #logOut(s: Session): Promise<void> {
    this.#leaving.add(s.user)
    try {
      await s.client.logout()
      await this.#clear(s)
    } finally {
      this.#leaving.delete(s.user)
    }
  }

  /** Deletes the account: the server voids all tokens, and all data of the account is removed here. */
  async #delete(s: Session, password: string): Promise<void> {
    this.#leaving.add(s.user)
    try {
      await this.#auth.deleteAccount(await (await this.#tokensOf(s.user)).tokens.token('', AbortSignal.timeout(answerMs)), password)
      await this.leave(s)
    } finally {
      this.#leaving.delete(s.user)
    }
  }

  /** Whether a logout of the user is under way in this page. Then errors about void tokens are expected. */
  isLeaving(user: string): boolean {
    return this.#leaving.has(user)
  }

  /** Removes all data of an account whose tokens are void already. */
  async leave(s: Session): Promise<void> {
    await s.client.forget()
    await this.#clear(s)
  }

  /**
   * Removes the data outside the store after the server has revoked the tokens, if no message is unsent; the client
   * removes its store. Otherwise the person decides first.
   */
  async revoked(s: Session): Promise<void> {
    if (await s.client.unsent() === 0) await this.#wipe(s)
  }

  async #clear(s: Session): Promise<void> {
    await this.#wipe(s)
    this.#openings.delete(s.user)
  }

  /** Removes the data that is not in the store of the client. */
  async #wipe(s: Session): Promise<void> {
    s.profiles.end()
    await (await this.#tokensOf(s.user)).tokens.save(undefined)
    forgetAccount(s.user)
    removeAccount(s.user)
  }
}

export const sessions = new SessionStore()

/** Returns the user of an access token; '': the server refuses it. */
async function userOf(token: string): Promise<string> {
  const answer = await fetch('/petrel.v1.AccountService/GetAccount', { method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: '{}' })
  return answer.ok ? (await answer.json() as { readonly user?: string }).user ?? '' : ''
}

/**
 * Returns the device for an account at this browser. Its id is made once, and kept until the account is logged out.
 */
function deviceOf(user: string): { id: string; kind: string; name: string } {
  const key = `${user}:device`
  const id = recall(key) || randomId()
  keep(key, id)
  return { id, kind: 'web', name: browserName(navigator.userAgent) }
}
