import type { Connection, ConnectionEvents, Transport } from '../transport.js'
import { failure, type Outgoing, refusal, type Row, type StoredRow } from '../core/index.js'
import { randomId } from '../randomid.js'
import { type Database, Fenced, outgoingPrefix } from '../indexeddb.js'
import { put, type Seam, type Shared, type Store } from '../store.js'
import type { ClientFrameJson } from '../wire/frames_gen.js'
import { changed, Hub } from './hub.js'
import type { FromAny, TabMessage, ToLeader } from './messages.js'

const probeEveryMs = 1000
/**
 * How long a hidden tab leads on beside one that the person sees. Its timers are slow, but
 * who turns to another tab for a moment should not cost a new connection.
 */
const hiddenLeadsMs = 5000
const stealAfter = 3 // probes without an answer, which is 3 s while this tab is awake

const isOutgoing = ({ key }: StoredRow): boolean => key.startsWith(outgoingPrefix)

/** The part of a browser's Web Locks that is used. */
export interface Locks {
  request<T>(name: string, options: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal }, f: (lock: unknown) => Promise<T> | T): Promise<T>
}

/** The part of a BroadcastChannel that is used. */
export interface Channel {
  onmessage: ((event: { readonly data: unknown }) => void) | null
  postMessage(m: unknown): void
  close(): void
}

/** The parts of a tab's browser. */
export interface Browser {
  readonly locks: Locks
  readonly channel: (name: string) => Channel
  readonly isVisible: () => boolean
  /** Has f called when the person turns to the tab or away from it. */
  readonly onVisibility: (f: () => void) => () => void
}

/**
 * One tab of those that share the store and the connection of an account. The one that holds
 * the lock leads: it has the connection, writes what is the same for all tabs, and sends the
 * messages of all. The others reach the server through it, and write only the messages that
 * are composed or discarded in them. All of them show all messages, and keep what they would
 * have written, so that any of them can take over.
 *
 * A tab that is frozen keeps its lock. So the tab that the person sees asks whether the
 * leader is there, and takes the lock away after 3 s. When the frozen one thaws, its term is
 * over: the store takes nothing from it any more, also no other `after` for a message. So
 * what it still sends the server knows by its id. Spec: P-4.7.
 */
export class Tab implements Shared {
  readonly transport: Transport
  readonly store: Store
  readonly #id = randomId()
  readonly #db: Database
  readonly #browser: Browser
  readonly #seam: Seam
  readonly #hub: Hub
  readonly #channel: Channel
  readonly #rows = new Map<string, unknown>() // all that this tab knows, as it would be in the store
  readonly #connections = new Map<number, ConnectionEvents>() // through the tab that leads, by number
  readonly #known = new Set<string>() // tabs whose end is watched
  readonly #closed = new AbortController()
  #connection = 0 // number of the newest one
  #settled: readonly Outgoing[] = [] // whose rows stay, because their entries are not there yet
  #term = 0 // in which this tab leads; 0: it does not
  #taken = true // the store has what this tab knows, since its term began
  #otherTerm = 0 // the newest term of another tab
  #release: (() => void) | undefined // of the lock
  #queue: Promise<unknown> = Promise.resolve() // what uses the database waits for what began before
  #running = false
  #contending = false // waits for the lock
  #loaded = false
  #wiped = false // another tab removes the data
  #hiddenAt = 0 // when the person turned away from this tab
  #unanswered = 0 // probes since the tab that leads was heard last
  #unset: (() => void) | undefined // of the next probe

  constructor(db: Database, browser: Browser, seam: Seam) {
    this.#db = db
    this.#browser = browser
    this.#seam = seam
    this.#channel = browser.channel(db.name)
    this.#channel.onmessage = ({ data }) => this.#take(data as TabMessage)
    this.#hub = new Hub(seam.transport, (m) => this.#post(m))
    this.transport = { speaks: seam.transport.speaks, connect: (address, on) => this.#connect(address, on) }
    this.store = {
      load: () => this.#load(),
      write: (rows, durable) => {
        const term = this.#term // in which the client has decided what the rows say
        return this.#alone(() => this.#write(rows, durable, term))
      },
      close: () => this.#close(),
      wipe: () => this.#wipe(),
    }
    const unwatch = browser.onVisibility(() => {
      this.#hiddenAt = seam.clock.now()
      this.#probe()
    })
    this.#closed.signal.addEventListener('abort', unwatch)
    void this.#hold(this.#lockOf(this.#id))
  }

  /** The client connects, or does not any more: only one that does can lead. */
  running(on: boolean): void {
    this.#running = on
    if (on) {
      if (this.#loaded) void this.#contend()
      this.#probe()
    } else {
      this.#unset?.()
      this.#demote()
    }
  }

  settled(messages: readonly Outgoing[]): void {
    const all = [...this.#settled, ...messages]
    if (this.#term > 0) this.#post({ kind: 'settled', messages: all })
    this.#settled = all.filter(({ id }) => this.#rows.has(outgoingPrefix + id))
  }

  // --- the store ---

  async #load(): Promise<readonly StoredRow[]> {
    if (this.#running) await this.#contend(true)
    return this.#alone(async () => {
      const rows = await this.#db.load()
      for (const { key, value } of rows) this.#rows.set(key, value)
      this.#loaded = true
      if (this.#term === 0 && this.#running) void this.#contend()
      return rows
    })
  }

  /** Runs f after what has begun before. */
  #alone<T>(f: () => Promise<T>): Promise<T> {
    const next = this.#queue.then(f)
    this.#queue = next.catch(() => {})
    return next
  }

  async #write(rows: readonly Row[], durable: boolean, term: number): Promise<void> {
    let outbox = rows.filter(isOutgoing)
    const composed = outbox.filter(({ key }) => !this.#rows.has(key))
    put(this.#rows, rows)
    if (term > 0) {
      try {
        await this.#db.write(rows, durable, term, this.#taken ? undefined : this.#rows)
        this.#taken = true
        this.#tell(outbox)
        return
      } catch (why) {
        if (!(why instanceof Fenced)) throw why
        if (term === this.#term) this.#demote()
        outbox = composed // of others the tab that leads knows more
      }
    }
    if (outbox.length > 0) await this.#db.write(outbox, durable)
    this.#tell([...outbox, ...rows.filter(({ value }) => (value as { readonly wantRead?: number } | null)?.wantRead)]) // who leads stores what was read
  }

  #tell(rows: readonly Row[]): void {
    if (rows.length > 0) this.#post({ kind: 'outbox', rows })
  }

  async #close(): Promise<void> {
    this.running(false)
    await this.#queue
    this.#closed.abort()
    this.#channel.close()
    await this.#db.close()
  }

  async #wipe(): Promise<void> {
    if (this.#wiped) return this.#close()
    this.#post({ kind: 'wiped' })
    await this.#close()
    await this.#db.wipe() // also if another tab begins to do so meanwhile
  }

  // --- who leads ---

  #lockOf(tab: string): string {
    return `${this.#db.name}/${tab}`
  }

  /** Holds a lock for as long as the tab is open. */
  #hold(name: string): Promise<void> {
    return this.#browser.locks.request(name, {}, () => new Promise<void>((resolve) => this.#closed.signal.addEventListener('abort', () => resolve())))
  }

  /** Waits for the lock and leads while this tab has it; `now`: only if it is free. */
  #contend(now = false): Promise<void> {
    if (this.#contending || this.#term > 0) return Promise.resolve()
    this.#contending = !now
    return new Promise((settled) => {
      this.#browser.locks.request(this.#db.name, now ? { ifAvailable: true } : { signal: this.#closed.signal }, (lock) => {
        this.#contending = false
        if (!lock) return settled()
        return this.#lead(settled)
      }).catch(() => this.#demote()).finally(settled) // it was taken away, or the tab is closed
    })
  }

  #steal(): void {
    this.#unanswered = 0
    this.#browser.locks.request(this.#db.name, { steal: true }, () => this.#lead(() => {})).catch(() => this.#demote())
  }

  /** Leads for as long as the lock is held. */
  async #lead(begun: () => void): Promise<void> {
    if (!this.#running || this.#closed.signal.aborted) return
    const held = new Promise<void>((resolve) => {
      this.#release = resolve
    })
    try {
      await this.#alone(async () => {
        const { term, left } = await this.#db.begin(this.#loaded)
        this.#term = term
        this.#taken = !this.#loaded
        this.#dropAll(changed)
        put(this.#rows, left.filter(isOutgoing) as readonly Row[])
        this.#seam.lead(this.#loaded ? left : undefined)
      })
    } catch (why) {
      if (why instanceof Fenced) this.#demote()
      else this.#seam.end(failure('store', String(why)))
      return
    }
    begun()
    this.#post({ kind: 'leads', term: this.#term })
    this.#seam.wakeUp()
    await held
  }

  /** This tab leads no more. */
  #demote(): void {
    if (this.#term === 0) return
    this.#term = 0
    this.#release?.()
    this.#release = undefined
    this.#known.clear()
    this.#hub.end()
    this.#seam.follow()
    if (this.#running && !this.#closed.signal.aborted) {
      void this.#contend()
      this.#probe()
    }
  }

  /** Asks whether the tab that leads is there, while the person sees this one. */
  #probe(): void {
    this.#unset?.()
    this.#unset = undefined
    if (!this.#running || this.#term > 0 || this.#closed.signal.aborted) return
    const visible = this.#browser.isVisible()
    this.#post({ kind: 'probe', tab: this.#id, visible })
    if (!visible) {
      this.#unanswered = 0
      return
    }
    if (this.#unanswered++ >= stealAfter && this.#loaded) this.#steal()
    this.#unset = this.#seam.clock.after(probeEveryMs, () => this.#probe())
  }

  // --- the other tabs ---

  #post(m: TabMessage): void {
    if (!this.#closed.signal.aborted) this.#channel.postMessage(m)
  }

  #take(m: TabMessage): void {
    switch (m.kind) {
      case 'wiped':
        this.#seam.end(refusal('revoked', 'another tab has logged out'))
        this.#wiped = true
        this.#db.leave()
        void this.#close()
        return
      case 'outbox':
        put(this.#rows, m.rows.filter(isOutgoing) as readonly Row[])
        this.#seam.outbox(m.rows, false) // who tells does not lead, so it has sent nothing
        return
      case 'probe':
      case 'open':
      case 'request':
      case 'close':
        if (this.#term > 0) this.#fromOther(m)
        return
      default:
        this.#fromLeader(m)
    }
  }

  #fromOther(m: ToLeader): void {
    this.#watch(m.tab)
    if (m.kind !== 'probe') {
      if (m.kind === 'open') this.settled([]) // it may have loaded their rows
      this.#hub.take(m)
      return
    }
    const hidden = this.#browser.isVisible() ? 0 : this.#seam.clock.now() - this.#hiddenAt
    if (m.visible && hidden >= hiddenLeadsMs) {
      void this.#alone(async () => this.#post({ kind: 'yield', tab: m.tab }))
      return
    }
    this.#post({ kind: 'leads', term: this.#term })
  }

  /**
   * Notices when a tab is gone: its lock is free then. What it has composed and told nobody is
   * in the store. A tab that is new may have read there what one before it has told nobody.
   */
  #watch(tab: string): void {
    if (this.#known.has(tab) || tab === this.#id) return
    this.#known.add(tab)
    this.#readOutbox()
    this.#browser.locks.request(this.#lockOf(tab), { signal: this.#closed.signal }, () => {}).then(() => {
      if (!this.#known.delete(tab)) return
      this.#hub.gone(tab)
      this.#readOutbox()
    }).catch(() => {}) // this tab is closed, or leads no more
  }

  #readOutbox(): void {
    this.#alone(() => this.#db.load()).then((rows) => this.#seam.outbox(rows.filter(isOutgoing), true), () => {}) // the next write says why
  }

  #fromLeader(m: Exclude<TabMessage, ToLeader | FromAny>): void {
    if (this.#term > 0) {
      if (m.kind === 'leads' && m.term > this.#term) this.#demote()
      return
    }
    this.#unanswered = 0
    switch (m.kind) {
      case 'leads':
        if (m.term > this.#otherTerm) {
          this.#otherTerm = m.term
          this.#dropAll(changed)
          this.#seam.wakeUp()
        }
        return
      case 'live':
        this.#seam.wakeUp()
        return
      case 'pushed':
        if (m.except !== this.#id) for (const on of this.#connections.values()) on.frame(m.frame)
        return
      case 'down':
        this.#dropAll(m.why.message)
        return
      case 'settled':
        this.#seam.settled(m.messages)
        return
      case 'yield':
        if (m.tab === this.#id && this.#loaded && this.#running) this.#steal()
        return
    }
    if (m.tab !== this.#id) return
    const on = this.#connections.get(m.conn)
    if (m.kind === 'opened') on?.opened()
    else if (m.kind === 'answer') on?.frame(m.frame)
    else if (this.#connections.delete(m.conn)) on?.closed(m.why)
  }

  #connect(address: string, on: ConnectionEvents): Connection {
    if (this.#term > 0) return this.#hub.connect(address, on)
    const conn = ++this.#connection
    const tab = this.#id
    this.#connections.set(conn, on)
    this.#post({ kind: 'open', tab, conn })
    return {
      send: (data) => {
        if (this.#connections.has(conn)) this.#post({ kind: 'request', tab, conn, frame: JSON.parse(data as string) as ClientFrameJson })
      },
      close: () => {
        if (this.#connections.delete(conn)) this.#post({ kind: 'close', tab, conn })
      },
    }
  }

  /** Ends the connections through another tab. */
  #dropAll(why: string): void {
    const all = [...this.#connections.values()]
    this.#connections.clear()
    for (const on of all) on.closed(failure('link', why))
  }
}
