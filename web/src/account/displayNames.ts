import { type Client, isPetrelError } from '@petrel-im/sdk'
import { keep, recall } from '../browserStorage.js'

const askEveryMs = 2500 // the server allows 30 look-ups a minute, and 30 at once
const atOnce = 20 // the first look-ups do not wait, so that a new list has its names at once
const freshMs = 3600_000
const openedFreshMs = 10_000 // the same for a user whose chat is opened
const pauseMs = 60_000 // after a refusal

interface Known {
  readonly name: string
  readonly atMs: number // when the name was learned
}

/** The display names of other users. They are looked up one by one when a view shows them. */
export class Names {
  readonly #client: Client
  readonly #key: string
  readonly #known = new Map<string, Known>()
  #wanted = new Set<string>()
  readonly #newlyWanted = new Set<string>() // added since the last look-up
  readonly #listeners = new Set<() => void>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #ended = false
  #asked = 0

  constructor(client: Client, user: string) {
    this.#client = client
    this.#key = `${user}:names`
    try {
      for (const [id, known] of Object.entries(JSON.parse(recall(this.#key) || '{}') as Record<string, Known>)) this.#known.set(id, known)
    } catch {
      // The names are looked up again.
    }
  }

  readonly subscribe = (f: () => void): (() => void) => {
    this.#listeners.add(f)
    return () => this.#listeners.delete(f)
  }

  /** Returns the display name of a user, or the id until the name is known. */
  of(user: string): string {
    return this.#known.get(user)?.name || user
  }

  /**
   * Queues the look-up of a user, unless the known name is fresh. opened: the person has opened the chat with that
   * user.
   */
  want(user: string, opened = false): void {
    if (user === '' || (this.#known.get(user)?.atMs ?? 0) > Date.now() - (opened ? openedFreshMs : freshMs)) return
    this.#newlyWanted.add(user)
    this.#timer ??= setTimeout(() => void this.#ask(), 0)
  }

  /** Takes a name from the answer of another call. */
  learn(user: string, name: string): void {
    if (this.#ended) return
    const before = this.of(user)
    this.#known.set(user, { name, atMs: Date.now() })
    this.#wanted.delete(user)
    this.#newlyWanted.delete(user)
    keep(this.#key, JSON.stringify(Object.fromEntries(this.#known)))
    if (this.of(user) !== before) for (const f of this.#listeners) f()
  }

  /** Ends the look-ups. The answer of a running one is ignored. */
  end(): void {
    clearTimeout(this.#timer)
    this.#ended = true
  }

  async #ask(): Promise<void> {
    this.#wanted = new Set([...this.#newlyWanted, ...this.#wanted]) // the newest wishes come first, so that a chat that opens does not wait for a long list
    this.#newlyWanted.clear()
    const [user] = this.#wanted
    let next = ++this.#asked < atOnce ? 0 : askEveryMs
    if (user !== undefined) {
      try {
        this.learn(user, (await this.#client.getUser(user, { signal: AbortSignal.timeout(pauseMs) })).displayName)
      } catch (why) {
        if (isPetrelError(why) && why.code === 'no_user') this.learn(user, '')
        else next = pauseMs
      }
    }
    this.#timer = this.#wanted.size + this.#newlyWanted.size > 0 && !this.#ended ? setTimeout(() => void this.#ask(), next) : undefined
  }
}
