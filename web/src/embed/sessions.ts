import { browserStore, Client } from '@petrel-im/sdk'
import { Names } from '../account/displayNames.js'
import type { Session } from '../account/SessionContext.js'
import { watchFor } from '../account/presenceWatch.js'
import { forgetAccount } from '../browserStorage.js'
import { fromAddress, PageLogin, refused, type TokenSource } from './pageLogin.js'

/** Whose session it is, and how the page says so. */
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
  users: number // elements that show it
  ending: ReturnType<typeof setTimeout> | undefined
}

/** Is told that another element has ended the session: why nobody is logged in now, or undefined if the next session asks the page again. */
type Ended = (why: unknown) => void

/** A session that an element uses, until it releases it. */
export interface Use {
  readonly session: Session
  /** Resolved when what this browser holds is read. */
  readonly opened: Promise<void>
  /** The page has another way to say who is logged in; it is asked from now on. */
  readonly asks: (o: Account) => void
  /** Ends the session, and forgets what the page has said: the next one asks it again. */
  readonly renew: () => Promise<void>
  /** Removes what this browser holds of the account. All elements that show it say why, at once. */
  readonly forget: (why: unknown) => Promise<void>
  /** The same, after the server was asked to void the tokens. False: they may still be valid. */
  readonly logOut: () => Promise<boolean>
  readonly release: () => void
}

const idleMs = 1000 // without an element, after which a session ends: another view of the page may have one
const shared = new Map<string, Shared>() // by account
const ending = new Map<string, Promise<unknown>>() // sessions that are being ended, by account

/** The name of an account in this browser, which no user of the web chat has. */
function nameOf({ server, tenant, user }: Account): string {
  return `embed/${new URL(server).host}/${tenant}/${user}`
}

function ask({ token, tokenUrl }: Account): TokenSource {
  return token || tokenUrl === '' ? token : fromAddress(tokenUrl)
}

/** Waits until the former session of an account is ended: the next one would read what that one still removes. */
export async function isFree(o: Account): Promise<void> {
  if (URL.canParse(o.server)) await ending.get(nameOf(o))
}

/** The session of an account. All elements of a page that are for the same account share one. */
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
  /** Nobody takes the session any more; those who show it are told before it is ended. */
  const drop = async <T>(why: unknown, end: () => Promise<T>): Promise<T> => {
    if (shared.get(account) === used) shared.delete(account)
    used.session.names.end()
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
  return { session: { user: o.user, account, client, names: new Names(client, account), watch: watchFor(client) }, login, opened: client.open(), onEnded: new Set(), users: 0, ending: undefined }
}

/** Voids the tokens of this browser, and removes what it holds of the account: the next person meets nothing. False: the tokens may still be valid. */
export async function logOut(o: Account): Promise<boolean> {
  await isFree(o)
  const use = take(o)
  try {
    return await use.logOut()
  } finally {
    use.release()
  }
}
