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
 * How long a hidden tab goes on leading while another tab is visible. Its timers are slow, but a short look at
 * another tab should not cost a new connection.
 */
const hiddenLeadsMs = 5000
const stealAfter = 3 // probes without an answer: 3 s while this tab is awake

const isOutgoing = ({ key }: StoredRow): boolean => key.startsWith(outgoingPrefix)

/** The part of the Web Locks of a browser that is used. */
export interface Locks {
  request<T>(name: string, options: { ifAvailable?: boolean; steal?: boolean; signal?: AbortSignal }, f: (lock: unknown) => Promise<T> | T): Promise<T>
}

/** The part of a BroadcastChannel that is used. */
export interface Channel {
  onmessage: ((event: { readonly data: unknown }) => void) | null
  postMessage(m: unknown): void
  close(): void
}

/** The parts of the browser that a tab uses. */
export interface Browser {
  readonly locks: Locks
  readonly channel: (name: string) => Channel
  readonly isVisible: () => boolean
  /** Calls f when the person turns to the tab or away from it, until the returned function is called. */
  readonly onVisibility: (f: () => void) => () => void
}

/**
 * One of the tabs that share the store and the connection of an account. The tab that holds the lock leads: it has
 * the connection, writes the shared rows, and sends the messages of all tabs. The others reach the server through
 * it. They write only the messages that are composed or discarded in them. Every tab shows all messages, and keeps
 * all rows in memory, so that it can take over.
 *
 * A frozen tab keeps its lock. So a visible tab probes the leader, and steals the lock after 3 s without an answer.
 * When the frozen tab thaws, its term is over: the store refuses its rows, also a new `after` of a message. So a
 * message that the tab still sends has the stored id and `after`. The new leader may send the same message, and the
 * server stores it once. Spec: P-4.7.
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
  readonly #rows = new Map<string, unknown>() // all rows as this tab knows them
  readonly #connections = new Map<number, ConnectionEvents>() // connections through the leading tab, by number
  readonly #known = new Set<string>() // tabs whose end is watched
  readonly #closed = new AbortController()
  #connection = 0 // number of the newest one
  #settled: readonly Outgoing[] = [] // settled messages whose rows stay until their entries are there
  #term = 0 // the term in which this tab leads; 0: it does not lead
  #taken = true // all rows were written since the term began
  #otherTerm = 0 // the newest term of another tab
  #release: (() => void) | undefined // releases the lock
  #queue: Promise<unknown> = Promise.resolve() // each use of the database waits for the former ones
  #running = false
  #contending = false // it waits for the lock
  #loaded = false
  #wiped = false // another tab removes the data of the account
  #hiddenAt = 0 // when the person turned away from this tab
  #unanswered = 0 // probes since the leading tab was last heard
  #unset: (() => void) | undefined // cancels the next probe

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
        const term = this.#term // the term in which the core made these rows
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

  /** Makes the tab wait for the lead while its client runs, and give up the lead when the client ends. */
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

  /** Runs f after all earlier uses of the database have ended. */
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
        outbox = composed // the new leader knows the other rows better
      }
    }
    if (outbox.length > 0) await this.#db.write(outbox, durable)
    this.#tell([...outbox, ...rows.filter(({ value }) => (value as { readonly wantRead?: number } | null)?.wantRead)]) // the leading tab stores the read cursors
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
    await this.#db.wipe() // even if another tab does the same
  }

  // --- who leads ---

  #lockOf(tab: string): string {
    return `${this.#db.name}/${tab}`
  }

  /** Holds a lock for as long as the tab is open. */
  #hold(name: string): Promise<void> {
    return this.#browser.locks.request(name, {}, () => new Promise<void>((resolve) => this.#closed.signal.addEventListener('abort', () => resolve())))
  }

  /**
   * Waits for the lock, and leads while this tab has it. `now`: it does not wait, and leads only if the lock is free.
   */
  #contend(now = false): Promise<void> {
    if (this.#contending || this.#term > 0) return Promise.resolve()
    this.#contending = !now
    return new Promise((settled) => {
      this.#browser.locks.request(this.#db.name, now ? { ifAvailable: true } : { signal: this.#closed.signal }, (lock) => {
        this.#contending = false
        if (!lock) return settled()
        return this.#lead(settled)
      }).catch(() => this.#demote()).finally(settled) // another tab has stolen it, or this tab is closed
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

  /** Stops leading, and waits for the lock again. */
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

  /**
   * Sends a probe to the leading tab, and a further one each second while this tab is visible. After 3 unanswered
   * ones it steals the lock.
   */
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
        this.#seam.outbox(m.rows, false) // the sender does not lead, so it has sent nothing
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
      if (m.kind === 'open') this.settled([]) // the new tab may have loaded their rows
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
   * Watches the lock of another tab, to notice when that tab is gone. It reads the outbox in the store at once, and
   * again when the tab is gone: the tab, or one before it, may have stored messages without telling this tab.
   */
  #watch(tab: string): void {
    if (this.#known.has(tab) || tab === this.#id) return
    this.#known.add(tab)
    this.#readOutbox()
    this.#browser.locks.request(this.#lockOf(tab), { signal: this.#closed.signal }, () => {}).then(() => {
      if (!this.#known.delete(tab)) return
      this.#hub.gone(tab)
      this.#readOutbox()
    }).catch(() => {}) // this tab is closed, or does not lead any more
  }

  #readOutbox(): void {
    this.#alone(() => this.#db.load()).then((rows) => this.#seam.outbox(rows.filter(isOutgoing), true), () => {}) // the next write throws the error
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

  /** Ends all connections that go through another tab. */
  #dropAll(why: string): void {
    const all = [...this.#connections.values()]
    this.#connections.clear()
    for (const on of all) on.closed(failure('link', why))
  }
}
