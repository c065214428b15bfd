import {
  type Change, type Core, discard, type Draft, draft, failure, follow, type GetHistory, type HistoryPage, kept, lead, lost, type Message,
  messageOf, mirror, noChange, notesCame, olderThan, type Outgoing, outgoing, sameFields, type SendSignal, settledElsewhere, since, status, takeOlder,
  takeReceipt, unknowable, wakeUp,
} from './core/index.js'
import { type CallOptions, eventsOf, type Method, type RequestOf, type ResponseOf } from './api.js'
import { type Clock, systemClock } from './clock.js'
import { isPetrelError, PetrelError, refused } from './errors.js'
import { apiAddress } from './http.js'
import { incoming } from './incoming.js'
import { type ClientOptions, type Sent, type Status, version } from './options.js'
import { randomId } from './randomid.js'
import { Requests } from './requestretry.js'
import type { Shared, Store, Warning } from './store.js'
import { changesOf, type Listener, Listeners } from './subscription.js'
import { TokenCache } from './token.js'
import { encoded, schemes, type Transport, webSocketTransport } from './transport.js'
import { CoreDriver } from './coredriver.js'
import { Views } from './views.js'
import { type Deferred, deferred, unlessAborted } from './wait.js'
import { watchWakeUps } from './wakeup.js'

const logoutMs = 5000 // how long a logout waits for the server by default

/**
 * The client of one device of a user. It is connected while `run`, `while` or `connect` is under way. Listeners get
 * changes, which name what has changed; snapshots show the present state. A snapshot stays the same object until
 * its content changes.
 */
export class Client extends Views {
  protected readonly driver: CoreDriver
  readonly #requests: Requests
  readonly #store: Store | undefined
  readonly #shared: Shared | undefined
  readonly #clock: Clock
  readonly #log: (line: string) => void
  readonly #listeners = new Listeners()
  readonly #fates = new Map<string, Deferred<Outgoing>>() // the outcomes of unsettled messages, by id
  #status: Status | undefined // the newest snapshot
  #warnings: readonly Warning[] = []
  #users = 0 // calls of connect that were not ended
  #serving = false
  #closed = false
  #closing: Promise<void> | undefined
  #forgetting: Promise<void> | undefined

  /** Makes a client. It does nothing before it is used. */
  constructor(o: ClientOptions) {
    super()
    const token = new TokenCache(o.token)
    this.#clock = o.clock ?? systemClock()
    const log = this.#log = o.log ?? (() => {})
    let socket: Transport | undefined
    const direct = o.transport ?? { speaks: schemes, connect: (address, on) => (socket ??= webSocketTransport(o.webSocket, o.codec?.decode)).connect(address, on) }
    const shared = o.store && 'share' in o.store ? o.store.share({
      transport: o.codec ? encoded(direct, o.codec.encode) : direct, clock: this.#clock, log,
      wakeUp: () => this.driver.apply(wakeUp),
      outbox: (rows, tried) => this.driver.whenOpen((core) => mirror(core, rows, tried)),
      settled: (messages) => this.driver.whenOpen((core) => messages.forEach((m) => settledElsewhere(core, m))),
      lead: (rows) => this.driver.apply((core) => lead(core, rows)),
      follow: () => this.driver.apply(follow),
      end: (why) => this.driver.halt(why),
      warn: (warnings) => this.#warn(warnings),
    }) : undefined
    this.#shared = shared
    this.#store = shared?.store ?? o.store as Store | undefined
    const keep = o.keep ?? 500
    this.driver = new CoreDriver({
      core: {
        url: o.url, speaks: schemes, deviceKind: o.deviceKind ?? '', client: o.client ?? version, stored: o.store !== undefined,
        keep, newest: Math.min(o.newest ?? 20, keep), manualDelivered: o.manualDelivered ?? false, wholeFrames: true,
        ...(o.device === undefined ? {} : { device: o.device }), ...(o.codec && !shared ? { encode: o.codec.encode } : {}),
      },
      store: this.#store, transport: shared?.transport ?? direct, token, clock: this.#clock, random: o.random ?? Math.random, newId: randomId, log,
      tell: (change) => this.#listeners.tell(change),
      settle: (messages) => this.#settle(messages),
      liveChanged: (live) => this.#requests.liveChanged(live),
    })
    if (shared) this.driver.apply(follow) // until the shared store calls lead
    this.#requests = new Requests({ driver: this.driver, clock: this.#clock, api: o.api ?? apiAddress(o.url), token, fetch: o.fetch ?? ((url, init) => fetch(url, init)) })
  }

  // --- life ---

  /**
   * Reads the store, once. `run`, `send`, `unsent` and `incoming` do so by themselves. Then the snapshots show
   * the stored state, even without a connection.
   */
  open(): Promise<void> {
    return this.driver.open()
  }

  /**
   * Connects and stays connected until signal is aborted. It is rejected if a person has to act: the token is void,
   * another device has taken the place of this one, the server does not speak this protocol, or the store failed. It
   * may be called again after it has ended. A running or closed client rejects with `invalid`. Spec: P-3.5, P-3.6.
   */
  async run(signal?: AbortSignal): Promise<void> {
    if (this.driver.isRunning) throw refused('invalid', 'the client is running')
    if (this.#closed) throw refused('invalid', 'the client is closed')
    const halt = (): void => this.driver.halt()
    const unwatch = watchWakeUps(() => this.wakeUp())
    signal?.addEventListener('abort', halt)
    this.#shared?.running(true)
    try {
      const why = signal?.aborted ? undefined : await this.driver.run()
      if ((why?.code === 'revoked' || why?.code === 'user_disabled') && await this.unsent() === 0) await this.forget().catch((e: unknown) => this.#log(`the data stays: ${String(e)}`))
      if (why) throw new PetrelError(why)
    } finally {
      signal?.removeEventListener('abort', halt)
      unwatch()
      this.#shared?.running(false)
    }
  }

  /** Runs the client while f runs, and closes it afterwards: for programs that have an end. */
  async while<T>(f: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController()
    const run = this.run(over.signal).finally(() => over.abort())
    run.catch(() => {}) // it is awaited below
    try {
      const result = await Promise.race([f(over.signal), run.then(() => new Promise<never>(() => {}))])
      over.abort()
      await run
      return result
    } finally {
      over.abort()
      await this.close()
    }
  }

  /**
   * Connects, and stays connected until each caller of connect has called the function that it got. The
   * connection ends a moment after the last of these calls, so a component that is unmounted and mounted again
   * at once does not reconnect. If the client ends by itself, `status` says why, and the next call of connect
   * starts it again. A closed client does not connect.
   */
  connect(): () => void {
    this.#users++
    void this.#serve()
    let ended = false
    return () => {
      if (ended) return
      ended = true
      this.#users--
      this.#clock.after(0, () => {
        if (this.#users === 0 && this.#serving) this.driver.halt()
      })
    }
  }

  async #serve(): Promise<void> {
    if (this.#serving) return
    this.#serving = true
    try {
      while (this.#users > 0) await this.run()
    } catch {
      // The status says why.
    } finally {
      this.#serving = false
    }
  }

  /** Ends the client for good and closes its store. Calls and messages that wait for the server are rejected. */
  close(): Promise<void> {
    this.#closing ??= this.#end().then(() => this.#store?.close())
    return this.#closing
  }

  async #end(): Promise<void> {
    this.#closed = true
    this.driver.halt()
    const why = new PetrelError(failure('link', 'the client is closed'))
    this.#requests.end(why)
    for (const fate of this.#fates.values()) fate.reject(why)
    this.#fates.clear()
    await this.driver.ended()
    this.#listeners.end()
  }

  /**
   * Voids the tokens of this device, and removes the stored data of the account, in all tabs. Unsent messages
   * are lost: warn the person if `unsent` is not 0.
   *
   * The data is also removed if the server refuses, or does not answer within timeoutMs (5 s by default). It
   * returns false if the tokens may still be valid. Such tokens stay valid until they expire, or until the
   * person logs this device out on another one.
   */
  async logout(options: CallOptions = {}): Promise<boolean> {
    let voided = true
    try {
      await this.call('petrel.v1.AccountService/Logout', {}, { timeoutMs: logoutMs, ...options })
    } catch (why) {
      options.signal?.throwIfAborted()
      const code = isPetrelError(why) ? why.code : undefined
      voided = code === 'revoked' || code === 'unauthenticated' || this.status().error?.code === 'revoked' // the server may close the connection before it answers
    }
    await this.forget()
    return voided
  }

  /**
   * Ends the client for good, and removes the stored data of the account, in all tabs. When the server has
   * revoked the tokens or disabled the user, `run` does so itself if no message is unsent. Otherwise the
   * application calls it, after it has warned the person.
   */
  forget(): Promise<void> {
    this.#forgetting ??= (async () => {
      await this.#end()
      await this.#store?.wipe()
    })()
    return this.#forgetting
  }

  /** Returns how many messages of all tabs are not sent yet. */
  async unsent(): Promise<number> {
    await this.driver.open()
    return this.driver.read((core) => [...core.outbox.sending.values()].filter((o) => o.state === 'sending').length)
  }

  /** Returns the state of the connection. */
  status(): Status {
    this.#status = sameFields(this.#status, { ...this.driver.read(status), warnings: this.#warnings })
    return this.#status
  }

  #warn(warnings: readonly Warning[]): void {
    this.#warnings = warnings
    this.#listeners.tell({ ...noChange(), status: true })
  }

  /**
   * Tells the client that the device was asleep or has another network. A connected client then checks within
   * seconds that the server is there; one that pauses before the next try connects at once. In a browser the client
   * notices such events itself. Spec: P-7.3.
   */
  wakeUp(): void {
    this.driver.apply(wakeUp)
  }

  // --- what changes ---

  /**
   * Calls f with each change until the returned function is called. A first call, in a microtask, names everything
   * that exists.
   */
  subscribe(f: Listener): () => void {
    return this.#subscribe(f, () => {})
  }

  /** Returns the changes of subscribe as an iterator. A slow reader gets fewer, larger changes and misses none. */
  changes(signal?: AbortSignal): AsyncGenerator<Change, void, void> {
    return changesOf((f, end) => this.#subscribe(f, end), signal)
  }

  #subscribe(f: Listener, end: () => void): () => void {
    return this.#listeners.add(f, () => this.driver.read(everything), end)
  }

  // --- messages on their way ---

  /**
   * Takes a message to be sent. When the promise is resolved, the message is in the store. The client sends it
   * when it is connected, after earlier messages to the same conversation. It repeats the send until the
   * outcome is known, for at most 30 days. Spec: P-4.
   */
  async send(d: Draft): Promise<Sent> {
    await this.driver.open()
    const taken = this.driver.apply((core) => draft(core, d))
    if (taken.refused) throw new PetrelError(taken.refused)
    const { outgoing: { id }, row } = taken
    this.#fate(id)
    if (row) {
      try {
        await this.driver.write([row], true)
      } catch (why) {
        this.#fates.delete(id)
        this.driver.apply((core) => lost(core, id))
        throw why
      }
      this.driver.apply((core) => kept(core, id))
    }
    return this.sent(id)
  }

  /** Replaces the text of an own message: the target shows the new text once the edit is stored. Spec: P-5.6. */
  editText(conv: string, target: number, text: string): Promise<Sent> {
    return this.send({ conv, edit: { target, text } })
  }

  /** Empties a message. Spec: P-5.6. */
  recall(conv: string, target: number): Promise<Sent> {
    return this.send({ conv, recall: { target } })
  }

  /** Returns a handle of the pending message with this id. If there is none, its `wait` is rejected. */
  sent(id: string): Sent {
    const fate = this.#fate(id)
    return { id, wait: async (signal) => sentOr(await unlessAborted(fate.promise, signal)) }
  }

  /** Removes a rejected or unknowable message from `pending`. Messages in other states stay. */
  discard(id: string): void {
    this.driver.apply((core) => discard(core, id))
  }

  #fate(id: string): Deferred<Outgoing> {
    let fate = this.#fates.get(id)
    if (fate) return fate
    fate = deferred()
    const now = this.driver.read((core) => outgoing(core, id))
    if (now?.state === 'sending') this.#fates.set(id, fate)
    else if (now) fate.resolve(now)
    else fate.reject(refused('invalid', `no message ${id} is pending`))
    return fate
  }

  #settle(messages: readonly Outgoing[]): void {
    for (const m of messages) {
      this.#fates.get(m.id)?.resolve(m)
      this.#fates.delete(m.id)
    }
    this.#shared?.settled(messages)
  }

  // --- what asks the server ---

  /**
   * Sends a signal to the members of a conversation who are connected, or connect within holdMs. It is not
   * stored, and the sender does not learn whom it reached. Codes: unsupported, invalid, too_large,
   * rate_limited. Spec: P-13.1.
   */
  async signal(s: SendSignal, options: CallOptions = {}): Promise<void> {
    await this.#requests.within(options, (signal) => this.#requests.request('signal', { signal: s }, signal))
  }

  /**
   * Reads up to limit entries (0: the page size of the server) that come before those of `messages`, and puts
   * them in front. It returns whether still older ones may follow. A range that the server cannot read is
   * skipped, and listed in `Conversation.damaged`.
   */
  async older(conv: string, limit = 0, options: CallOptions = {}): Promise<boolean> {
    const before = this.driver.read((core) => olderThan(core, conv))
    if (before === 0) return false
    let page: HistoryPage | undefined
    let damage: PetrelError['damaged']
    try {
      page = await this.history({ conv, before, limit }, options)
    } catch (why) {
      if (!isPetrelError(why) || !why.damaged) throw why
      damage = why.damaged
    }
    return this.driver.apply((core) => takeOlder(core, conv, before, page ?? damage as NonNullable<typeof damage>))
  }

  /**
   * Returns entries of a conversation above the seq `after`, oldest first, at most limit (0: all held ones, or the
   * page size of the server). If the client holds all of them, they are the held ones, otherwise a page of the
   * history.
   */
  async since(conv: string, after: number, limit = 0, options: CallOptions = {}): Promise<readonly Message[]> {
    const held = this.driver.read((core) => since(core, conv, after, limit))
    if (held) return held
    const page = await this.history({ conv, after, limit }, options)
    return page.messages.map(messageOf)
  }

  /**
   * Asks the server for a page of a conversation, even if the client holds its entries. It asks again when the
   * connection ends or the error is retryable. The error `damaged` is thrown at once, because an operator has to repair
   * the store first. Spec: P-5.2, P-9.5.
   */
  history(q: GetHistory, options: CallOptions = {}): Promise<HistoryPage> {
    return this.#requests.within(options, (signal) => this.#requests.history(q, signal))
  }

  /**
   * Loads the read and delivered cursors of the members of a conversation, for the ticks of a group. Those of a
   * direct conversation come without a request.
   */
  async loadReceipts(conv: string, options?: CallOptions): Promise<void> {
    let after: string | undefined = ''
    do {
      const { receipts = [], next }: ResponseOf<'petrel.v1.MessageService/ListReceipts'> = await this.call('petrel.v1.MessageService/ListReceipts', { conv, after }, options)
      this.driver.apply((core) => eventsOf({ receipts }).receipts.forEach((r) => takeReceipt(core, r)))
      after = next
    } while (after)
  }

  /**
   * Loads the reactions and pins of the entries that `messages` returns. Call it when a conversation is shown
   * that was out of focus, or whose client was not connected. Spec: P-5.11.
   */
  async loadNotes(conv: string, options?: CallOptions): Promise<void> {
    const held = this.messages(conv)
    const after = (held[0]?.seq ?? 0) - 1
    let before = (held.at(-1)?.seq ?? 0) + 1
    while (held.length > 0 && before > after + 1) {
      const page = await this.history({ conv, after, before, onlyNotes: true }, options)
      this.driver.apply((core) => notesCame(core, conv, page.notes))
      if (!page.more || page.coveredFrom === 0 || page.coveredFrom >= before) return
      before = page.coveredFrom
    }
  }

  /**
   * Calls a method over the connection, or over HTTP if the server does not offer calls over connections. It
   * waits until the client is live, at most for timeoutMs.
   */
  override call<M extends Method>(method: M, request: RequestOf<M>, options: CallOptions = {}): Promise<ResponseOf<M>> {
    return this.#requests.within(options, (signal) => this.#requests.call(method, request, signal)) as Promise<ResponseOf<M>>
  }

  protected override noted(conv: string, { note }: ResponseOf<'petrel.v1.MessageService/React'>): void {
    if (note) this.driver.apply((core) => notesCame(core, conv, eventsOf({ notes: [note] }).notes))
  }

  // --- bots ---

  /**
   * Yields the texts and data that others send to the user, in all conversations. Those of one conversation
   * come in the order of their seqs. Own messages, repeats and recalled messages are left out.
   *
   * A message is finished when the loop asks for the next one. Then its position is stored, and the user's read
   * cursor moves over it. An unfinished message comes again, after a crash and after a loop that was left by
   * break. So no message is skipped, but one may come twice. Make the id of a reply from the seq: then the
   * reply is stored once all the same.
   *
   * The first loop of a store begins at the read cursors. A conversation that appears later begins with the
   * first message that the user may read. The loop ends when signal is aborted.
   */
  incoming(signal?: AbortSignal): AsyncGenerator<Message, void, void> {
    return incoming({
      driver: this.driver, changes: (until) => this.changes(until), history: (q, until) => this.#requests.history(q, until),
      markRead: (conv, seq) => this.markRead(conv, seq),
    }, signal)
  }
}

/** Returns a change that names everything that exists. */
function everything(core: Core): Change {
  return { conversations: new Set(core.convs.keys()), list: true, status: true, account: true, unread: true, signals: true, presence: true, pending: true }
}

function sentOr(m: Outgoing): Outgoing {
  if (m.state === 'sent') return m
  throw new PetrelError(m.error ?? unknowable)
}
