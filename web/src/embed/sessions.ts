import { browserStore, Client } from '@petrel-im/sdk'
import { Names } from '../account/names.js'
import type { Session } from '../account/session.js'
import { watchFor } from '../account/watch.js'
import { forgetAccount } from '../stored.js'
import { fromAddress, PageLogin, refused, type TokenSource } from './login.js'

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
  users: number // elements that show it
  ending: ReturnType<typeof setTimeout> | undefined
}

/** A session that an element uses, until it releases it. */
export interface Use {
  readonly session: Session
  /** Resolved when what this browser holds is read. */
  readonly opened: Promise<void>
  /** The page has another way to say who is logged in; it is asked from now on. */
  readonly asks: (o: Account) => void
  /** Ends the session, and forgets what the page has said: the next one asks it again. */
  readonly renew: () => Promise<void>
  /** Removes what this browser holds of the account. */
  readonly forget: () => Promise<void>
  readonly release: () => void
}

const idleMs = 1000 // without an element, after which a session ends: another view of the page may have one
const shared = new Map<string, Shared>() // by account

/** The name of an account in this browser, which no user of the web chat has. */
function nameOf({ server, tenant, user }: Account): string {
  return `embed/${new URL(server).host}/${tenant}/${user}`
}

function ask({ token, tokenUrl }: Account): TokenSource {
  return token || tokenUrl === '' ? token : fromAddress(tokenUrl)
}

/** The session of an account. All elements of a page that are for the same account share one. */
export function take(o: Account): Use {
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
  const drop = (): void => {
    if (shared.get(account) === used) shared.delete(account)
    used.session.names.end()
  }
  const forget = async (): Promise<void> => {
    drop()
    await used.session.client.forget()
    await used.login.forget()
    forgetAccount(account)
  }
  return {
    session: used.session, opened: used.opened, forget,
    asks: (now) => {
      used.login.ask = ask(now)
    },
    async renew() {
      drop()
      await used.session.client.close()
      await used.login.forget()
    },
    release() {
      if (released) return
      released = true
      if (--used.users > 0) return
      used.ending = setTimeout(() => {
        drop()
        void used.session.client.close()
      }, idleMs)
    },
  }
}

function make(o: Account, account: string): Shared {
  const login = new PageLogin({ server: o.server, user: o.user, account, ask: ask(o) })
  const client = new Client({ url: o.server, token: login.token, deviceKind: 'web', client: 'petrel-chat/0.1.0', store: browserStore(account), newest: 40 })
  return { session: { user: o.user, account, client, names: new Names(client, account), watch: watchFor(client) }, login, opened: client.open(), users: 0, ending: undefined }
}

/** Voids the tokens of this browser, and removes what it holds of the account: the next person meets nothing. */
export async function logOut(o: Account): Promise<void> {
  const use = take(o)
  const end = use.session.client.connect()
  try {
    await use.session.client.logout()
  } finally {
    end()
    await use.forget()
    use.release()
  }
}
