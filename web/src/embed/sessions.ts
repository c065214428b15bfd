import { browserStore, Client } from '@petrel-im/sdk'
import { keptProfiles } from '../account/keptProfiles.js'
import type { Session } from '../account/SessionContext.js'
import { watchFor } from '../account/presenceWatch.js'
import { forgetAccount } from '../browserStorage.js'
import { fromAddress, PageLogin, refused, type TokenSource } from './pageLogin.js'

/** The account of a session, and the source of its tokens. */
export interface Account {
  readonly server: string
  readonly tenant: string
  readonly user: string
  readonly token: TokenSource
  readonly tokenUrl: string
}

interface Shared {
  readonly session: Session
  readonly login: PageLogin
  readonly opened: Promise<void>
  readonly onEnded: Set<Ended>
  users: number // elements that use it
  ending: ReturnType<typeof setTimeout> | undefined
}

/**
 * Is called when the session was ended, here or by another element. why is the error to show; undefined: begin a
 * new session, which asks the page for a login.
 */
type Ended = (why: unknown) => void

/** The use of a session by one element, until release is called. */
export interface Use {
  readonly session: Session
  /** Resolved when the data in this browser is loaded. */
  readonly opened: Promise<void>
  /** Takes another source of tokens from the page; it is asked from now on. */
  readonly asks: (o: Account) => void
  /** Ends the session, and forgets the login: the next session asks the page for one. */
  readonly renew: () => Promise<void>
  /**
   * Ends the session, and removes the data of the account from this browser. All elements with the session show
   * why, at once.
   */
  readonly forget: (why: unknown) => Promise<void>
  /**
   * Asks the server to void the tokens, and then does the same as forget. It returns false if the tokens may still be
   * valid.
   */
  readonly logOut: () => Promise<boolean>
  readonly release: () => void
}

const idleMs = 1000 // a session without an element ends after this time: another view of the page may use it until then
const shared = new Map<string, Shared>() // by account
const ending = new Map<string, Promise<unknown>>() // the ends under way of sessions, by account

/**
 * Returns the key of an account in this browser. It contains slashes, so no account of the web chat has the same key.
 */
function nameOf({ server, tenant, user }: Account): string {
  return `embed/${new URL(server).host}/${tenant}/${user}`
}

function ask({ token, tokenUrl }: Account): TokenSource {
  return token || tokenUrl === '' ? token : fromAddress(tokenUrl)
}

/**
 * Waits until the former session of an account is ended. Otherwise the next one would load data that is just being
 * removed.
 */
export async function isFree(o: Account): Promise<void> {
  if (URL.canParse(o.server)) await ending.get(nameOf(o))
}

/** Returns the use of the session of an account. All elements of a page with the same account share one session. */
export function take(o: Account, onEnded: Ended = () => {}): Use {
  if (o.server === '' || !URL.canParse(o.server)) throw refused('invalid', `the attribute server is "${o.server}"`, 'give <petrel-chat> an address like https://chat.example.org')
  if (o.user === '') throw refused('invalid', 'the attribute user is missing', 'say who is logged in to the page')
  const account = nameOf(o)
  let s = shared.get(account)
  if (s) s.login.ask = ask(o)
  else {
    s = make(o, account)
    shared.set(account, s)
  }
  const used = s
  clearTimeout(used.ending)
  used.users++
  let released = false
  used.onEnded.add(onEnded)
  /**
   * Ends the session by calling `end`. Before that, the session is not shared any more, and onEnded of each element
   * that uses it is called with `why`.
   */
  const drop = async <T>(why: unknown, end: () => Promise<T>): Promise<T> => {
    if (shared.get(account) === used) shared.delete(account)
    used.session.profiles.end()
    const done = Promise.resolve().then(end)
    const settled = done.catch(() => {}).then(() => {
      if (ending.get(account) === settled) ending.delete(account)
    })
    ending.set(account, settled)
    for (const f of used.onEnded) f(why)
    return done
  }
  const wipe = async (end: () => Promise<unknown>): Promise<void> => {
    try {
      await end()
    } finally {
      await used.login.forget()
      forgetAccount(account)
    }
  }
  return {
    session: used.session, opened: used.opened,
    asks: (now) => {
      used.login.ask = ask(now)
    },
    renew: () => drop(undefined, async () => {
      await used.session.client.close()
      await used.login.forget()
    }),
    forget: (why) => drop(why, () => wipe(() => used.session.client.forget())),
    logOut: () => drop(refused('unauthenticated', 'the person has logged out'), async () => {
      const { client } = used.session
      const end = client.connect()
      let voided = false
      try {
        await wipe(async () => {
          voided = await client.logout()
        })
      } finally {
        end()
      }
      return voided
    }),
    release() {
      if (released) return
      released = true
      used.onEnded.delete(onEnded)
      if (--used.users > 0) return
      used.ending = setTimeout(() => void drop(undefined, () => used.session.client.close()), idleMs)
    },
  }
}

function make(o: Account, account: string): Shared {
  const login = new PageLogin({ server: o.server, user: o.user, account, ask: ask(o) })
  const client = new Client({ url: o.server, token: login.token, deviceKind: 'web', client: 'petrel-chat/0.1.0', store: browserStore(account), newest: 40 })
  return { session: { user: o.user, account, client, profiles: keptProfiles(client, account), watch: watchFor(client) }, login, opened: client.open(), onEnded: new Set(), users: 0, ending: undefined }
}

/**
 * Voids the tokens of this browser, and removes the data of the account: the next person finds nothing of it. It
 * returns false if the tokens may still be valid.
 */
export async function logOut(o: Account): Promise<boolean> {
  await isFree(o)
  const use = take(o)
  try {
    return await use.logOut()
  } finally {
    use.release()
  }
}
