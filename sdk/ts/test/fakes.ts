// Doubles of what a browser has, for tabs in one process.
import { type Browser, type Channel, type Clock, type Locks, systemClock } from '../src/index.js'

interface Holder {
  readonly tab: string
  readonly lost: (why: Error) => void
  readonly release: () => void
}

interface Waiting {
  readonly tab: string
  readonly grant: () => void
}

/** The locks that all tabs of a browser share, and its channels. */
export class FakeBrowser {
  readonly #held = new Map<string, Holder>()
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #channels = new Set<FakeChannel>()
  readonly #visible = new Map<string, boolean>()
  readonly #watchers = new Map<string, () => void>()
  readonly #frozen = new Set<string>()
  readonly #missed = new Map<string, (() => void)[]>() // what a frozen tab has still to hear of its locks and timers
  readonly #speed: number
  #skipped = 0

  /** speed: how much faster than the clock on the wall those of the tabs go. */
  constructor(speed = 1) {
    this.#speed = speed
  }

  tab(tab: string): Browser {
    this.#visible.set(tab, true)
    return {
      locks: this.#locks(tab),
      channel: (name) => this.#channel(tab, name),
      isVisible: () => this.#visible.get(tab) === true,
      onVisibility: (f) => {
        this.#watchers.set(tab, f)
        return () => void this.#watchers.delete(tab)
      },
    }
  }

  /** The clocks of all tabs jump. */
  skip(ms: number): void {
    this.#skipped += ms
  }

  /** The clock of a tab. While the tab is frozen its timers wait, and those of one that is gone never come. */
  clock(tab: string): Clock {
    const clock = systemClock()
    const begin = clock.now()
    return {
      now: () => begin + (clock.now() - begin) * this.#speed + this.#skipped,
      after: (ms, f) => {
        const ring = (): void => {
          if (this.#frozen.has(tab)) this.#missed.set(tab, [...this.#missed.get(tab) ?? [], fire])
          else fire()
        }
        const fire = (): void => {
          if (!over) f()
        }
        const off = clock.after(ms / this.#speed, ring)
        let over = false
        return () => {
          over = true
          off()
        }
      },
    }
  }

  show(tab: string, visible: boolean): void {
    this.#visible.set(tab, visible)
    this.#watchers.get(tab)?.()
  }

  /** The tab gets nothing any more, and keeps its locks. */
  freeze(tab: string): void {
    this.#frozen.add(tab)
  }

  /** It gets what it has missed. */
  thaw(tab: string): void {
    if (!this.#frozen.delete(tab)) return
    for (const f of this.#missed.get(tab)?.splice(0) ?? []) f()
    for (const c of this.#channels) if (c.tab === tab) c.flush()
  }

  isFrozen(tab: string): boolean {
    return this.#frozen.has(tab)
  }

  /** The tab is gone, with its locks and channels. */
  kill(tab: string): void {
    this.freeze(tab)
    for (const c of this.#channels) if (c.tab === tab) c.close()
    for (const [name, list] of this.#waiting) this.#waiting.set(name, list.filter((w) => w.tab !== tab))
    for (const [name, h] of this.#held) if (h.tab === tab) this.#free(name)
  }

  post(from: FakeChannel, m: unknown): void {
    const copy = this.#frozen.has(from.tab) ? structuredClone(m) : m
    this.#recordEntry(from.tab, () => { // a tab that is frozen runs nothing: it says this when it thaws
      for (const c of this.#channels) if (c !== from && c.name === from.name) c.get(structuredClone(copy))
    })
  }

  drop(c: FakeChannel): void {
    this.#channels.delete(c)
  }

  #channel(tab: string, name: string): Channel {
    const c = new FakeChannel(this, tab, name)
    this.#channels.add(c)
    return c
  }

  /** Runs f in a tab, when it thaws if it is frozen. */
  #recordEntry(tab: string, f: () => void): void {
    if (!this.#frozen.has(tab)) f()
    else this.#missed.set(tab, [...this.#missed.get(tab) ?? [], f])
  }

  #free(name: string): void {
    this.#held.delete(name)
    this.#waiting.get(name)?.shift()?.grant()
  }

  #locks(tab: string): Locks {
    return {
      request: <T>(name: string, { ifAvailable, steal, signal }: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal }, f: (lock: unknown) => Promise<T> | T) =>
        new Promise<T>((resolve, reject) => {
          const hold = (): void => {
            const mine: Holder = { tab, lost: reject, release: () => this.#held.get(name) === mine && this.#free(name) }
            this.#held.set(name, mine)
            this.#recordEntry(tab, () => {
              Promise.resolve().then(() => f({})).then(resolve, reject).finally(mine.release)
            })
          }
          const holder = this.#held.get(name)
          if (!holder || steal) {
            this.#held.delete(name)
            if (holder) this.#recordEntry(holder.tab, () => holder.lost(new Error('AbortError: stolen')))
            hold()
          } else if (ifAvailable) Promise.resolve(f(null)).then(resolve, reject)
          else {
            const w: Waiting = { tab, grant: hold }
            this.#waiting.set(name, [...this.#waiting.get(name) ?? [], w])
            signal?.addEventListener('abort', () => {
              this.#waiting.set(name, (this.#waiting.get(name) ?? []).filter((x) => x !== w))
              reject(new Error('AbortError'))
            })
          }
        }),
    }
  }
}

class FakeChannel implements Channel {
  onmessage: Channel['onmessage'] = null
  readonly tab: string
  readonly name: string
  readonly #browser: FakeBrowser
  #missed: unknown[] = []

  constructor(browser: FakeBrowser, tab: string, name: string) {
    this.#browser = browser
    this.tab = tab
    this.name = name
  }

  postMessage(m: unknown): void {
    this.#browser.post(this, m)
  }

  get(m: unknown): void {
    this.#missed.push(m)
    queueMicrotask(() => this.flush())
  }

  flush(): void {
    if (this.#browser.isFrozen(this.tab)) return
    const all = this.#missed
    this.#missed = []
    for (const data of all) this.onmessage?.({ data })
  }

  close(): void {
    this.#browser.drop(this)
  }
}
