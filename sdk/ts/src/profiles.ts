// The profiles of the users whom an application shows.
import type { Client } from './client.js'
import { type Clock, systemClock } from './clock.js'
import { isPetrelError } from './errors.js'

const maxBatch = 100 // users of one request. P-14.2
const freshMs = 10_000 // a profile that the server has just confirmed is not asked for again
const retryMs = 5000 // after an error that does not say when

/** What the user may see of another user. Fields that are hidden or not set are ''. Spec: P-14.1. */
export interface Profile {
  readonly user: string
  /** '': the user has none; show the id. */
  readonly displayName: string
  readonly about: string
  readonly handle: string
  /** Coming: the id of a file. */
  readonly avatar: string
  /** Fields of the application. */
  readonly fields: Readonly<Record<string, string>>
  /** The user has deleted the account: nothing else is left to see. Show words for that in the place of the name. */
  readonly deleted: boolean
  /** Compare it for equality only: no version is newer than another one. */
  readonly version: string
}

/** The profiles of one user, as an application keeps them between two runs: plain data that fits into JSON. */
export interface SavedProfiles {
  /** The history id that the profiles belong to. */
  readonly history: string
  /** The one that was wanted last is the last. */
  readonly profiles: readonly Profile[]
}

export interface ProfilesOptions {
  /** How many profiles are held; 10,000 by default. Those that were not wanted for the longest time go first. */
  readonly most?: number
  /** Returns what `save` got last. It is called once, at the beginning. */
  readonly load?: () => SavedProfiles | undefined | Promise<SavedProfiles | undefined>
  /** Keeps the profiles. It is called after each answer that has changed some. */
  readonly save?: (saved: SavedProfiles) => void
  readonly clock?: Clock
}

/** An account in the answer of a call, such as GetUser or UpdateAccount. */
export type ProfileSource = { readonly user?: string } & Partial<Profile>

type Of = Pick<Client, 'call' | 'subscribe' | 'status' | 'presence' | 'conversation'>

interface Known {
  readonly profile: Profile
  checkedMs: number // when the server has confirmed it; 0: it was loaded
  presence: string // the last version that a presence of the user told
  peer: string // the last version that a sync told
  conv: string // where a view has shown the user last; '': nowhere
}

/** A user to be asked for. */
interface Wish {
  readonly conv: string // where the user is shown; ''
  readonly told: string // the version that the server has told; '': a view shows the user
}

/**
 * The profiles of the users that the views of one client show. A view says by `want` whom it shows, and reads them by
 * `get`. They are asked for together, and again when the server tells another version. Watch the users who are on the
 * screen (`Client.watch`): then a change shows within seconds. Spec: S-20.
 */
export class Profiles {
  readonly #client: Of
  readonly #clock: Clock
  readonly #most: number
  readonly #save: ((saved: SavedProfiles) => void) | undefined
  readonly #known = new Map<string, Known>() // the one that was wanted last is the last
  readonly #unknown = new Set<string>() // there is no such user
  readonly #later = new Map<string, Wish>() // until the server has look-ups again
  #older = new Map<string, Wish>() // wishes of former ticks
  #newest = new Map<string, Wish>() // those of this one
  #asked: ReadonlySet<string> = new Set() // users of the request that is under way
  #history = ''
  readonly #listeners = new Set<(users: ReadonlySet<string>) => void>()
  readonly #timers = new Set<() => void>()
  readonly #over = new AbortController()
  readonly #unsubscribe: () => void
  #scheduled = false
  #saving = false

  constructor(client: Of, o: ProfilesOptions = {}) {
    this.#client = client
    this.#clock = o.clock ?? systemClock()
    this.#most = o.most ?? 10_000
    this.#save = o.save
    const saved = o.load?.()
    if (saved instanceof Promise) saved.then((s) => this.#restore(s), () => {}) // the server has them all
    else this.#restore(saved)
    this.#unsubscribe = client.subscribe((change) => {
      if (change.status) this.#checkHistory()
      for (const conv of change.conversations) this.#toldBySync(conv)
      if (change.presence) this.#toldByPresences()
    })
  }

  /** Returns the profile of a user: the same object until its version changes; undefined: it is not known. */
  readonly get = (user: string): Profile | undefined => this.#known.get(user)?.profile

  /** Whether the server has said that there is no such user. */
  isUnknown(user: string): boolean {
    return this.#unknown.has(user)
  }

  /**
   * Says that a view shows users. conv: the conversation in which it shows them; the profiles of its members cost no
   * look-up. Profiles that the server has told to be the present ones are not asked for.
   */
  want(users: string | readonly string[], { conv = '' }: { readonly conv?: string } = {}): void {
    for (const user of typeof users === 'string' ? [users] : users) {
      if (user === '' || this.#unknown.has(user) || this.#asked.has(user) || this.#later.has(user)) continue
      const known = this.#known.get(user)
      if (known) {
        this.#known.delete(user)
        this.#known.set(user, known) // the last one goes last
        if (conv !== '') known.conv = conv
        if (known.checkedMs > this.#clock.now() - freshMs || known.profile.version === this.#client.presence(user)?.profile) continue
      }
      this.#wish(user, { conv, told: '' })
    }
  }

  /** Takes a version that the server has told, for example in a list of members. '' is ignored. */
  told(user: string, version: string): void {
    const known = this.#known.get(user)
    if (version === '' || !known && !this.#unknown.delete(user)) return
    if (known?.profile.version === version) known.checkedMs = this.#clock.now()
    else if (!this.#later.has(user)) this.#wish(user, { conv: '', told: version })
  }

  /** Takes the profile of a user from the answer of another call. */
  learn(account: ProfileSource): void {
    if (!account.user || this.#over.signal.aborted) return
    this.#older.delete(account.user)
    this.#newest.delete(account.user)
    this.#unknown.delete(account.user)
    if (this.#take(account, this.#clock.now())) this.#changed(new Set([account.user]))
  }

  /** Calls f with the users whose profiles have changed, until the returned function is called. */
  readonly subscribe = (f: (users: ReadonlySet<string>) => void): (() => void) => {
    this.#listeners.add(f)
    return () => this.#listeners.delete(f)
  }

  /** Ends all requests. The profiles that are known can still be read. */
  end(): void {
    this.#over.abort()
    this.#unsubscribe()
    for (const cancel of this.#timers) cancel()
    this.#timers.clear()
    this.#listeners.clear()
  }

  #restore(saved: SavedProfiles | undefined): void {
    const { history } = this.#client.status()
    if (!saved || this.#history !== '' || history !== '' && history !== saved.history) return
    this.#history = saved.history
    const users = new Set<string>()
    for (const profile of saved.profiles) {
      if (!this.#known.has(profile.user) && this.#take(profile, 0)) users.add(profile.user)
    }
    this.#tell(users)
  }

  /** Drops everything if the server has another history id. Spec: P-14.2. */
  #checkHistory(): void {
    const { history } = this.#client.status()
    if (history === '' || history === this.#history) return
    const isFirst = this.#history === ''
    this.#history = history
    if (isFirst) return
    const users = new Set(this.#known.keys())
    this.#known.clear()
    this.#unknown.clear()
    this.#changed(users)
  }

  #toldBySync(conv: string): void {
    const { peer = '', peerProfile = '' } = this.#client.conversation(conv) ?? {}
    const known = this.#known.get(peer)
    if (known?.peer === peerProfile) return
    if (known) known.peer = peerProfile
    this.told(peer, peerProfile)
  }

  #toldByPresences(): void {
    for (const [user, known] of this.#known) {
      const version = this.#client.presence(user)?.profile ?? ''
      if (known.presence === version) continue
      known.presence = version
      this.told(user, version)
    }
  }

  #wish(user: string, wish: Wish): void {
    if (this.#over.signal.aborted) return
    const { conv = '' } = this.#newest.get(user) ?? this.#older.get(user) ?? this.#known.get(user) ?? {}
    this.#newest.set(user, { conv: wish.conv || conv, told: wish.told })
    this.#schedule(0)
  }

  #schedule(ms: number): void {
    if (this.#scheduled) return
    this.#scheduled = true
    this.#after(ms, () => void this.#ask().finally(() => {
      this.#scheduled = false
      if (this.#older.size + this.#newest.size > 0 && !this.#over.signal.aborted) this.#schedule(0)
    }))
  }

  #after(ms: number, f: () => void): void {
    const cancel = this.#clock.after(ms, () => {
      this.#timers.delete(cancel)
      f()
    })
    this.#timers.add(cancel)
  }

  /** Asks for the newest wishes. The others wait for the next request. */
  async #ask(): Promise<void> {
    const wishes = this.#takeWishes()
    if (wishes.size === 0) return
    const history = this.#history
    const conv = [...wishes.values()].find((w) => w.conv !== '')?.conv ?? ''
    this.#asked = new Set(wishes.keys())
    const users = Array.from(wishes.keys(), (user) => ({ user, version: this.get(user)?.version ?? '' }))
    try {
      const answer = await this.#client.call('petrel.v1.AccountService/GetUsers', { users, ...(conv ? { conv } : {}) }, { timeoutMs: Infinity, signal: this.#over.signal })
      if (history !== '' && history !== this.#history) this.#again(wishes)
      else this.#answered(wishes, answer)
    } catch (why) {
      if (!isPetrelError(why) || !why.retryable || this.#over.signal.aborted) return // the next view that shows them asks again
      this.#rest(wishes, why.retryAfterMs || retryMs)
    } finally {
      this.#asked = new Set()
    }
  }

  /**
   * Takes up to maxBatch wishes for one request: the newest first, and only those of one conversation, because a
   * request names one.
   */
  #takeWishes(): Map<string, Wish> {
    this.#older = new Map([...this.#newest, ...[...this.#older].filter(([user]) => !this.#newest.has(user))].slice(0, this.#most))
    this.#newest = new Map()
    const taken = new Map<string, Wish>()
    let conv = ''
    for (const [user, wish] of this.#older) {
      if (taken.size === maxBatch) break
      if (wish.conv !== '' && conv !== '' && wish.conv !== conv) continue
      this.#older.delete(user)
      if (wish.told !== '' && this.get(user)?.version === wish.told) continue // another answer had it
      conv ||= wish.conv
      taken.set(user, wish)
    }
    return taken
  }

  #answered(wishes: ReadonlyMap<string, Wish>, { users = [], unknown = [], later = [], retryAfterMs = 0 }: { readonly users?: readonly ProfileSource[]; readonly unknown?: readonly string[]; readonly later?: readonly string[]; readonly retryAfterMs?: number }): void {
    const now = this.#clock.now()
    const waits = new Set(later)
    const changed = new Set<string>()
    for (const user of wishes.keys()) {
      const known = this.#known.get(user)
      if (known && !waits.has(user)) known.checkedMs = now
    }
    for (const one of users) if (one.user && this.#take(one, now, wishes.get(one.user)?.conv)) changed.add(one.user)
    for (const user of unknown) {
      if (this.#known.delete(user)) changed.add(user)
      this.#unknown.add(user)
      if (this.#unknown.size > this.#most) this.#unknown.delete(first(this.#unknown))
    }
    if (later.length > 0) this.#rest(new Map([...wishes].filter(([user]) => waits.has(user))), retryAfterMs || retryMs)
    if (changed.size > 0) this.#changed(changed)
  }

  /** Makes wishes wait. */
  #rest(wishes: ReadonlyMap<string, Wish>, ms: number): void {
    for (const [user, wish] of wishes) this.#later.set(user, wish)
    this.#after(ms, () => {
      for (const user of wishes.keys()) this.#later.delete(user)
      this.#again(wishes)
    })
  }

  #again(wishes: ReadonlyMap<string, Wish>): void {
    for (const [user, wish] of wishes) this.#older.set(user, wish)
    this.#schedule(0)
  }

  /** Takes a profile, and returns whether that changes what `get` returns. */
  #take(p: ProfileSource, checkedMs: number, conv = ''): boolean {
    const { user = '', displayName = '', about = '', handle = '', avatar = '', fields = {}, version = '', deleted = false } = p
    const old = this.#known.get(user)
    if (old && old.profile.version === version && version !== '') {
      old.checkedMs = checkedMs
      return false
    }
    const profile: Profile = Object.freeze({ user, displayName, about, handle, avatar, fields: Object.freeze({ ...fields }), version, deleted })
    this.#known.delete(user)
    this.#known.set(user, { profile, checkedMs, presence: old?.presence ?? '', peer: old?.peer ?? '', conv: conv || (old?.conv ?? '') })
    if (this.#known.size > this.#most) this.#known.delete(first(this.#known.keys()))
    return true
  }

  #changed(users: ReadonlySet<string>): void {
    if (this.#save && !this.#saving) { // at once, so that a page that is closed soon has it
      this.#saving = true
      this.#after(0, () => {
        this.#saving = false
        this.#save?.({ history: this.#client.status().history || this.#history, profiles: Array.from(this.#known.values(), (k) => k.profile) })
      })
    }
    this.#tell(users)
  }

  #tell(users: ReadonlySet<string>): void {
    for (const f of [...this.#listeners]) f(users)
  }
}

function first(users: Iterable<string>): string {
  for (const user of users) return user
  return ''
}
