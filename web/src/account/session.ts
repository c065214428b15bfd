import { Auth, browserStore, browserTokens, Client, isPetrelError, memoryTokens, SavedTokens, type Tokens, type TokenStorage } from '@petrel-im/sdk'
import { randomId } from '../../ui/index.js'
import { forgetAccount, keep, onKept, recall } from '../stored.js'
import { addAccount, allAccounts, removeAccount } from './accounts.js'
import { browserName } from './browserName.js'
import { Names } from './names.js'
import { watchFor } from './watch.js'

/** A user who is logged in here: their client, and what goes with it. */
export interface Session {
  readonly user: string
  /** Under which this browser keeps what is not the client's, such as drafts. */
  readonly account: string
  readonly client: Client
  readonly names: Names
  /** Watches the presence of users, until the function that it returns is called. */
  readonly watch: (users: readonly string[]) => () => void
}

export const version = 'petrel-web/0.1.0'

const tenant = 'default'
const auth = new Auth(location.origin)
const sessions = new Map<string, Promise<Session | undefined>>()
const opened = new WeakMap<Promise<unknown>, Session>()
const leaving = new Set<string>() // accounts that are being logged out here
const absent = new Set<string>() // accounts to which nobody has logged in here
const unstored = new Set<string>() // accounts whose store has failed, and which do without it in this page

// Another tab may have logged in to one.
onKept((name) => {
  if (name !== 'accounts') return
  for (const user of absent) sessions.delete(user)
  absent.clear()
})

const unkept = new Map<string, TokenStorage>() // where the browser keeps nothing

/** The tokens of an account, and what is kept of them now. A browser that keeps nothing has them for as long as the page is open. */
async function saved(user: string): Promise<{ readonly tokens: SavedTokens; readonly have: Tokens | undefined }> {
  let storage = unkept.get(user)
  let have: Tokens | undefined
  try {
    storage ??= browserTokens(`${tenant}/${user}`)
    have = await storage.read()
  } catch {
    storage = memoryTokens()
    unkept.set(user, storage)
  }
  return { tokens: new SavedTokens(auth, storage), have }
}

/** The session of an account; undefined: nobody has logged in to it here. A page has one of each. */
export function openSession(user: string): Promise<Session | undefined> {
  let session = sessions.get(user)
  if (!session) {
    session = makeSession(user)
    sessions.set(user, session)
    const made = session
    made.then((s) => s && opened.set(made, s), () => sessions.delete(user))
  }
  return session
}

/** The session of an account, if it is open already. */
export function openedSession(user: string): Session | undefined {
  const session = sessions.get(user)
  return session && opened.get(session)
}

async function makeSession(user: string): Promise<Session | undefined> {
  if (!allAccounts().includes(user)) { // whoever asks for the tokens of an account makes a database for them
    absent.add(user)
    return undefined
  }
  const kept = saved(user)
  const make = (of: string): Client => new Client({
    url: location.origin, token: async (old, signal) => (await kept).tokens.token(old, signal), deviceKind: 'web', client: version,
    store: browserStore(`${tenant}/${user}`, unstored.has(user) ? {} : undefined), newest: 40, ...(of === '' ? {} : { device: of }),
  })
  // The tokens say which device this is. While they are read, so is what is kept of the account:
  // as a rule the device is the one that is kept by itself.
  const device = recall(`${user}:device`)
  let client: Client | undefined = make(device)
  client.open().catch(() => {}) // it is asked again below
  const { have } = await kept
  if (have?.device !== device) {
    await client.close().catch(() => {}) // nothing was changed
    client = undefined
  }
  if (!have) {
    removeAccount(user)
    absent.add(user)
    return undefined
  }
  client ??= make(have.device)
  await client.open()
  return { user, account: user, client, names: new Names(client, user), watch: watchFor(client) }
}

/** Has the account go on in this page with nothing kept. What is in the store stays there. */
export async function goOnWithoutStore(s: Session): Promise<void> {
  unstored.add(s.user)
  await s.client.close().catch(() => {}) // its store has failed
  sessions.delete(s.user)
}

/** What a person gives to log in. */
export interface Credentials {
  readonly user: string
  readonly password: string
}

/** Logs in by the user name as it is typed, or in small letters, because telephones begin a word with a capital. Returns the user. */
export async function logIn(c: Credentials): Promise<string> {
  const tokens = await auth.login({ ...c, device: deviceOf(c.user) }).catch((why: unknown) => {
    const user = c.user.toLowerCase()
    if (user === c.user || !isPetrelError(why) || why.code !== 'bad_credentials') throw why
    return auth.login({ ...c, user, device: deviceOf(user) })
  })
  await admit(tokens)
  return tokens.user
}

export async function register(c: Credentials & { readonly displayName: string; readonly invitation: string }): Promise<string> {
  const { displayName, invitation } = c
  await admit(await auth.register({
    user: c.user, password: c.password, device: deviceOf(c.user), ...(displayName ? { displayName } : {}), ...(invitation ? { invitation } : {}),
  }))
  return c.user
}

async function admit(tokens: Tokens): Promise<void> {
  await (await saved(tokens.user)).tokens.save(tokens)
  sessions.delete(tokens.user) // one with former tokens
  addAccount(tokens.user)
}

const forEver = Number.MAX_SAFE_INTEGER

/**
 * Logs in with a token of the operator, as the links of `petrel demo` have it, and returns its
 * user; '': the server does not take it. Somebody who has logged in to the account stays so.
 */
export async function admitToken(token: string): Promise<string> {
  const user = token.split('.')[1] ?? ''
  if (allAccounts().includes(user) && (await saved(user)).have?.refresh) return user
  if (await userOf(token).catch(() => '') !== user) return ''
  await admit({ user, device: '', access: token, accessExpiresMs: forEver, refresh: '', refreshExpiresMs: 0, requestId: '' })
  return user
}

/** Asks the server whose an access token is. */
async function userOf(token: string): Promise<string> {
  const answer = await fetch('/petrel.v1.AccountService/GetAccount', { method: 'POST', headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: '{}' })
  return answer.ok ? (await answer.json() as { readonly user?: string }).user ?? '' : ''
}

/** The id of this installation for an account is made once, and kept until the account leaves. */
function deviceOf(user: string): { id: string; kind: string; name: string } {
  const key = `${user}:device`
  const id = recall(key) || randomId()
  keep(key, id)
  return { id, kind: 'web', name: browserName(navigator.userAgent) }
}

/** Logs out: the server voids the tokens, and nothing of the account stays here. */
export async function logOut(s: Session): Promise<void> {
  leaving.add(s.user)
  try {
    await s.client.logout()
    await clear(s)
  } finally {
    leaving.delete(s.user)
  }
}

/** Whether the person has just logged out: that the tokens are void is no news then. */
export function isLeaving(user: string): boolean {
  return leaving.has(user)
}

/** Removes what is here of an account whose tokens are void already. */
export async function leave(s: Session): Promise<void> {
  await s.client.forget()
  await clear(s)
}

/** The server has voided the tokens: nothing of the account stays here. About messages that are not sent the person decides first. */
export async function revoked(s: Session): Promise<void> {
  if (await s.client.unsent() === 0) await wipe(s)
}

async function clear(s: Session): Promise<void> {
  await wipe(s)
  sessions.delete(s.user)
}

/** Removes what the client does not know of. */
async function wipe(s: Session): Promise<void> {
  s.names.end()
  await (await saved(s.user)).tokens.save(undefined)
  forgetAccount(s.user)
  removeAccount(s.user)
}
