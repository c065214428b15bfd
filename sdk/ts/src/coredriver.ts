import {
  type Change, closed, type Core, type CoreOptions, decode, failure, type Failure, frame, isEmpty, isLive, newCore, noChange, open, opened, type
  Outgoing, prepare, type Row, start, step, stop, stored, storeFailed, takeOutputs, tokenCame, type Written,
} from './core/index.js'
import type { Clock } from './clock.js'
import { failureOf, PetrelError } from './errors.js'
import { type Deferred, deferred } from './wait.js'
import type { Store } from './store.js'
import type { TokenCache } from './token.js'
import type { Connection, Transport } from './transport.js'

/** The parts that a driver connects to its core, and its callbacks. */
export interface TurnsOptions {
  readonly core: CoreOptions
  readonly store: Store | undefined
  readonly transport: Transport
  readonly token: TokenCache
  readonly clock: Clock
  readonly random: () => number
  readonly newId: () => string
  readonly log: (line: string) => void
  /** Is called with each change, once it is stored. */
  readonly tell: (change: Change) => void
  /** Is called with messages whose outcome is known, once that is stored. */
  readonly settle: (messages: readonly Outgoing[]) => void
  /** Is called when the connection becomes live, and when it is live no more. */
  readonly liveChanged: (live: boolean) => void
}

/**
 * Drives a core: passes inputs to it, and carries out its outputs. Inputs that come together are one turn. The
 * driver writes a turn to the store before it reports it. Spec: S-1.3, S-17.1.
 */
export class CoreDriver {
  readonly #o: TurnsOptions
  readonly #core: Core
  readonly #connections = new Map<number, Connection>() // by the number of the core
  #opening: Promise<void> | undefined
  #isOpen = false
  #due = false // a turn is scheduled
  #writing = false
  #written: (() => void)[] = [] // callbacks for the end of the current write
  #settled: Outgoing[] = [] // to be reported after the next write
  #live = false
  #broken: Failure | undefined // the store has failed: nothing more is written
  #unset: (() => void) | undefined // cancels the timer of the core's alarm
  #run: Promise<Failure | undefined> | undefined // the current run
  #over: Deferred<Failure | undefined> | undefined // ends the current run

  constructor(o: TurnsOptions) {
    this.#o = o
    this.#core = newCore(o.core, o.random, o.newId, o.clock.now())
  }

  /** Reads the store, once. */
  open(): Promise<void> {
    this.#opening ??= this.#open()
    return this.#opening
  }

  async #open(): Promise<void> {
    try {
      open(this.#core, await this.#o.store?.load() ?? [])
    } catch (why) {
      const failed = this.#broken = failureOf(why, 'store')
      this.apply((core) => stop(core, failed))
    }
    this.#isOpen = true
    this.#soon()
    if (this.#broken) throw new PetrelError(this.#broken)
  }

  /** Applies an input after open has read the store. It drops the input if open was not called, or failed. */
  whenOpen(input: (core: Core) => void): void {
    this.#opening?.then(() => this.apply(input), () => {})
  }

  /** Applies an input, and schedules a turn in a microtask. Inputs before it share the turn. */
  apply<T>(input: (core: Core) => T): T {
    this.#core.now = this.#o.clock.now()
    const result = input(this.#core)
    this.#soon()
    return result
  }

  /** Calls f with the core, only to read from it. */
  read<T>(f: (core: Core) => T): T {
    this.#core.now = this.#o.clock.now()
    return f(this.#core)
  }

  /** Writes rows at once, outside the turns. It does nothing without a store. */
  async write(rows: readonly Row[], durable: boolean): Promise<void> {
    if (!this.#o.store) return
    if (this.#broken) throw new PetrelError(this.#broken)
    try {
      await this.#o.store.write(rows, durable)
    } catch (why) {
      throw new PetrelError(failureOf(why, 'store'), { cause: why })
    }
  }

  /** Waits until run and open have ended, and all is written. */
  async ended(): Promise<void> {
    await Promise.allSettled([this.#run, this.#opening])
    await this.flushed()
  }

  get isRunning(): boolean {
    return this.#run !== undefined
  }

  /**
   * Connects, and stays connected until halt is called or the core gives up. Then it writes everything, and
   * returns why the core gave up.
   */
  run(): Promise<Failure | undefined> {
    const over = this.#over = deferred()
    this.#run = this.#runOnce(over).finally(() => {
      this.#run = undefined
    })
    return this.#run
  }

  async #runOnce({ promise }: Deferred<Failure | undefined>): Promise<Failure | undefined> {
    const early = await Promise.race([promise.then((why) => ({ why })), this.open()])
    if (!early && this.#broken) return this.#broken
    if (!early) this.apply(start)
    const why = await promise
    this.apply((core) => stop(core, why))
    this.#turn()
    this.#over = undefined
    for (const connection of this.#connections.values()) connection.close()
    this.#connections.clear()
    await this.flushed()
    this.#unset?.()
    return why
  }

  /** Ends run, which returns why. */
  halt(why?: Failure): void {
    this.#over?.resolve(why)
  }

  /** Waits until all present changes are written, or the store has failed. */
  async flushed(): Promise<void> {
    this.#turn()
    while (this.#writing) await new Promise<void>((resolve) => this.#written.push(resolve))
  }

  #soon(): void {
    if (this.#due) return
    this.#due = true
    queueMicrotask(() => {
      if (this.#due) this.#turn()
    })
  }

  /**
   * Steps the core, carries out its outputs and writes its rows, until nothing is left or a write is under way.
   * Then it sets the timer for the next step.
   */
  #turn(): void {
    this.#due = false
    if (!this.#isOpen) return
    for (;;) {
      this.#core.now = this.#o.clock.now()
      step(this.#core)
      this.#perform()
      if (this.#writing || !this.#write()) break
    }
    this.#unset?.()
    this.#unset = this.#core.alarm < Infinity ? this.#o.clock.after(this.#core.alarm - this.#core.now, () => this.#turn()) : undefined
  }

  /** Carries out the core's outputs. */
  #perform(): void {
    const core = this.#core
    const out = takeOutputs(core)
    for (const conn of out.drops) this.#drop(conn)
    for (const { conn, addr } of out.dials) this.#dial(conn, addr)
    for (const { conn, data } of out.frames) this.#connections.get(conn)?.send(data)
    for (const line of out.remarks) this.#o.log(line)
    this.#settled.push(...out.settled)
    if (out.token) void this.#o.token.get(out.token.refused).then((token) => this.apply((c) => tokenCame(c, token)))
    if (out.ended) this.halt(out.ended)
    const live = isLive(core)
    if (live !== this.#live) {
      this.#live = live
      this.#o.liveChanged(live)
    }
  }

  #dial(conn: number, addr: string): void {
    let connection: Connection
    try {
      connection = this.#o.transport.connect(addr, {
        opened: () => this.apply((c) => opened(c, conn)),
        frame: (json) => this.#frame(conn, json),
        closed: (why) => {
          this.#connections.delete(conn)
          this.apply((c) => closed(c, conn, why))
        },
      })
    } catch (why) { // not a valid address
      this.apply((c) => closed(c, conn, failureOf(why)))
      return
    }
    this.#connections.set(conn, connection)
  }

  #frame(conn: number, json: unknown): void {
    try {
      const f = decode(json)
      this.apply((c) => frame(c, conn, f))
    } catch (why) {
      this.#drop(conn)
      this.apply((c) => closed(c, conn, failure('link', String(why))))
    }
  }

  #drop(conn: number): void {
    this.#connections.get(conn)?.close()
    this.#connections.delete(conn)
  }

  /**
   * Writes the changes of a turn, and reports them afterwards. It returns false if there are none, or the store
   * has failed.
   */
  #write(): boolean {
    const w = prepare(this.#core)
    const settled = this.#settled
    this.#settled = []
    if (w.rows.length === 0 && w.fresh.length === 0 && isEmpty(w.change) && settled.length === 0) return false
    if (this.#broken) { // no change is reported after the store has failed, except for the status: it has the reason
      if (w.change.status) this.#o.tell({ ...noChange(), status: true })
      return false
    }
    if (!this.#o.store || w.rows.length === 0 && !w.durable) {
      this.#tell(w, settled)
      return true
    }
    this.#writing = true
    void this.#commit(this.#o.store, w, settled)
    return true
  }

  async #commit(store: Store, w: Written, settled: readonly Outgoing[]): Promise<void> {
    try {
      await store.write(w.rows, w.durable)
    } catch (why) {
      this.#broken = failureOf(why, 'store')
      storeFailed(this.#core, this.#broken.message)
    }
    if (!this.#broken) this.#tell(w, settled)
    this.#writing = false
    const waiting = this.#written
    this.#written = []
    this.#turn()
    for (const done of waiting) done()
  }

  #tell(w: Written, settled: readonly Outgoing[]): void {
    const change = stored(this.#core, w)
    if (settled.length > 0) this.#o.settle(settled)
    if (!isEmpty(change)) this.#o.tell(change)
  }
}
