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
import { Turns } from './coredriver.js'
import { Views } from './views.js'
import { type Deferred, deferred, unlessAborted } from './wait.js'
import { watchWakeUps } from './wakeup.js'

const logoutMs = 5000 // for which a logout waits for the server

/**
 * One device of a user. It works while it runs: `run`, `while` or `connect`. What changes is
 * told by name, and read as snapshots; those that have not changed are the same objects.
 */
export class Client extends Views {
  protected readonly turns: Turns
  readonly #requests: Requests
  readonly #store: Store | undefined
  readonly #shared: Shared | undefined
  readonly #clock: Clock
  readonly #log: (line: string) => void
  readonly #listeners = new Listeners()
  readonly #fates = new Map<string, Deferred<Outgoing>>() // of messages that somebody may wait for, by id
  #status: Status | undefined // made of the core's and the warnings, the same while these are
  #warnings: readonly Warning[] = []
  #users = 0 // who want the client connected
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
      wakeUp: () => this.turns.apply(wakeUp),
      outbox: (rows, tried) => this.turns.whenOpen((core) => mirror(core, rows, tried)),
      settled: (messages) => this.turns.whenOpen((core) => messages.forEach((m) => settledElsewhere(core, m))),
      lead: (rows) => this.turns.apply((core) => lead(core, rows)),
      follow: () => this.turns.apply(follow),
      end: (why) => this.turns.halt(why),
      warn: (warnings) => this.#warn(warnings),
    }) : undefined
    this.#shared = shared
    this.#store = shared?.store ?? o.store as Store | undefined
    const keep = o.keep ?? 500
    this.turns = new Turns({
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
    if (shared) this.turns.apply(follow) // until the store says otherwise
    this.#requests = new Requests({ turns: this.turns, clock: this.#clock, api: o.api ?? apiAddress(o.url), token, fetch: o.fetch ?? ((url, init) => fetch(url, init)) })
  }

  // --- life ---

  /** Reads the store, which everything else does when it needs to. Then the snapshots have what was there, also without a connection. */
  open(): Promise<void> {
    return this.turns.open()
  }

  /**
   * Connects and stays connected until signal is aborted. It is rejected if a person has to
   * act: the token is void, another device has taken the place of this one, the server does
   * not speak this protocol, or the store failed. It may be called again. Spec: P-3.5, P-3.6.
   */
  async run(signal?: AbortSignal): Promise<void> {
    if (this.turns.isRunning) throw refused('invalid', 'the client is running')
    if (this.#closed) throw refused('invalid', 'the client is closed')
    const halt = (): void => this.turns.halt()
    const unwatch = watchWakeUps(() => this.wakeUp())
    signal?.addEventListener('abort', halt)
    this.#shared?.running(true)
    try {
      const why = signal?.aborted ? undefined : await this.turns.run()
      if ((why?.code === 'revoked' || why?.code === 'user_disabled') && await this.unsent() === 0) await this.forget().catch((e: unknown) => this.#log(`the data stays: ${String(e)}`))
      if (why) throw new PetrelError(why)
    } finally {
      signal?.removeEventListener('abort', halt)
      unwatch()
      this.#shared?.running(false)
    }
  }

  /** Runs the client while f runs, for programs that have an end, and closes it then. */
  async while<T>(f: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController()
    const run = this.run(over.signal).finally(() => over.abort())
    run.catch(() => {}) // it is awaited below, whatever f does
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
   * Has the client run until the function that it returns was called, by all who called
   * connect. That takes effect a moment later, so that a component that is unmounted and
   * mounted again at once does not cost a connection. Why it ends by itself is in `status`; then
   * another call begins anew. A client that was closed does not connect.
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
        if (this.#users === 0 && this.#serving) this.turns.halt()
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

  /** Ends the client for good, and the use of its store. What waits for the server is rejected. */
  close(): Promise<void> {
    this.#closing ??= this.#end().then(() => this.#store?.close())
    return this.#closing
  }

  async #end(): Promise<void> {
    this.#closed = true
    this.turns.halt()
    const why = new PetrelError(failure('link', 'the client is closed'))
    this.#requests.end(why)
    for (const fate of this.#fates.values()) fate.reject(why)
    this.#fates.clear()
    await this.turns.ended()
    this.#listeners.end()
  }

  /**
   * Voids the tokens of this device, and removes what is stored of the account, in all tabs.
   * Messages that are not sent yet are lost: warn the person if `unsent` is not 0. The next
   * person at this browser meets nothing.
   *
   * The data is removed even if the server cannot be reached within timeoutMs, 5 s by itself,
   * or refuses. False: the tokens may still be valid. They are void when the person logs this
   * device out on another one, or when they expire.
   */
  async logout(options: CallOptions = {}): Promise<boolean> {
    let voided = true
    try {
      await this.call('petrel.v1.AccountService/Logout', {}, { timeoutMs: logoutMs, ...options })
    } catch (why) {
      options.signal?.throwIfAborted()
      const code = isPetrelError(why) ? why.code : undefined
      voided = code === 'revoked' || code === 'unauthenticated' || this.status().error?.code === 'revoked' // the server may end the connection before it answers
    }
    await this.forget()
    return voided
  }

  /**
   * Ends the client for good, and removes what is stored of the account, in all tabs. A client whose
   * tokens were revoked does so by itself if nothing is unsent; otherwise the application
   * does, after it has warned the person.
   */
  forget(): Promise<void> {
    this.#forgetting ??= (async () => {
      await this.#end()
      await this.#store?.wipe()
    })()
    return this.#forgetting
  }

  /** How many messages are still to be sent, by all tabs. */
  async unsent(): Promise<number> {
    await this.turns.open()
    return this.turns.read((core) => [...core.outbox.sending.values()].filter((o) => o.state === 'sending').length)
  }

  /** How the client is connected now. */
  status(): Status {
    this.#status = sameFields(this.#status, { ...this.turns.read(status), warnings: this.#warnings })
    return this.#status
  }

  #warn(warnings: readonly Warning[]): void {
    this.#warnings = warnings
    this.#listeners.tell({ ...noChange(), status: true })
  }

  /**
   * Tells that the device was asleep, or has another network: the client makes sure within
   * seconds that the server is there. In a browser it notices by itself. Spec: P-7.3.
   */
  wakeUp(): void {
    this.turns.apply(wakeUp)
  }

  // --- what changes ---

  /**
   * Has f told what changes, by name. The first change names everything that is there. The
   * function that it returns ends that.
   */
  subscribe(f: Listener): () => void {
    return this.#subscribe(f, () => {})
  }

  /** The same as an iterator: a reader that is slow gets fewer and larger changes, and misses nothing. */
  changes(signal?: AbortSignal): AsyncGenerator<Change, void, void> {
    return changesOf((f, end) => this.#subscribe(f, end), signal)
  }

  #subscribe(f: Listener, end: () => void): () => void {
    return this.#listeners.add(f, () => this.turns.read(everything), end)
  }

  // --- messages on their way ---

  /**
   * Takes a message: it is in the store when the promise is resolved. It is sent when the
   * client is connected, after what was taken for the same conversation before, and again
   * until its fate is known, at most 30 days. Spec: P-4.
   */
  async send(d: Draft): Promise<Sent> {
    await this.turns.open()
    const taken = this.turns.apply((core) => draft(core, d))
    if (taken.refused) throw new PetrelError(taken.refused)
    const { outgoing: { id }, row } = taken
    this.#fate(id)
    if (row) {
      try {
        await this.turns.write([row], true)
      } catch (why) {
        this.#fates.delete(id)
        this.turns.apply((core) => lost(core, id))
        throw why
      }
      this.turns.apply((core) => kept(core, id))
    }
    return this.sent(id)
  }

  /** Replaces the text of an own message. The target shows it once it is stored. Spec: P-5.6. */
  editText(conv: string, target: number, text: string): Promise<Sent> {
    return this.send({ conv, edit: { target, text } })
  }

  /** Empties a message. Spec: P-5.6. */
  recall(conv: string, target: number): Promise<Sent> {
    return this.send({ conv, recall: { target } })
  }

  /** The message with this id, which is pending. */
  sent(id: string): Sent {
    const fate = this.#fate(id)
    return { id, wait: async (signal) => sentOr(await unlessAborted(fate.promise, signal)) }
  }

  /** Stops showing a message that is rejected or unknowable among those on their way. Others stay. */
  discard(id: string): void {
    this.turns.apply((core) => discard(core, id))
  }

  #fate(id: string): Deferred<Outgoing> {
    let fate = this.#fates.get(id)
    if (fate) return fate
    fate = deferred()
    const now = this.turns.read((core) => outgoing(core, id))
    if (now?.state === 'sending') this.#fates.set(id, fate)
    else if (now) fate.resolve(now)
    else fate.reject(refused('invalid', `there is no message ${id} on its way`))
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
   * Tells those who are in a conversation now something that nobody stores. Nobody knows whom
   * it reached. Codes: unsupported, invalid, too_large, rate_limited. Spec: P-13.1.
   */
  async signal(s: SendSignal, options: CallOptions = {}): Promise<void> {
    await this.#requests.within(options, (signal) => this.#requests.request('signal', { signal: s }, signal))
  }

  /**
   * Reads up to limit entries (0: the server's page) from before those that `messages`
   * returns and puts them in front. False: there are none before them. What the server cannot
   * read is passed over, and then stands in `Conversation.damaged`.
   */
  async older(conv: string, limit = 0, options: CallOptions = {}): Promise<boolean> {
    const before = this.turns.read((core) => olderThan(core, conv))
    if (before === 0) return false
    let page: HistoryPage | undefined
    let damage: PetrelError['damaged']
    try {
      page = await this.history({ conv, before, limit }, options)
    } catch (why) {
      if (!isPetrelError(why) || !why.damaged) throw why
      damage = why.damaged
    }
    return this.turns.apply((core) => takeOlder(core, conv, before, page ?? damage as NonNullable<typeof damage>))
  }

  /**
   * Reads entries of a conversation above after, oldest first, at most limit (0: the server's
   * page): from what the client holds, or else from the history.
   */
  async since(conv: string, after: number, limit = 0, options: CallOptions = {}): Promise<readonly Message[]> {
    const held = this.turns.read((core) => since(core, conv, after, limit))
    if (held) return held
    const page = await this.history({ conv, after, limit }, options)
    return page.messages.map(messageOf)
  }

  /**
   * Asks the server for a page of a conversation, past what the client holds. It asks again
   * when the connection ends. What the server cannot read is an error at once: an operator has
   * to act first. Spec: P-5.2, P-9.5.
   */
  history(q: GetHistory, options: CallOptions = {}): Promise<HistoryPage> {
    return this.#requests.within(options, (signal) => this.#requests.history(q, signal))
  }

  /** Asks how far the members of a conversation are, for the ticks of a group; those of a direct conversation come by themselves. */
  async loadReceipts(conv: string, options?: CallOptions): Promise<void> {
    let after: string | undefined = ''
    do {
      const { receipts = [], next }: ResponseOf<'petrel.v1.MessageService/ListReceipts'> = await this.call('petrel.v1.MessageService/ListReceipts', { conv, after }, options)
      this.turns.apply((core) => eventsOf({ receipts }).receipts.forEach((r) => takeReceipt(core, r)))
      after = next
    } while (after)
  }

  /**
   * Asks for the reactions and pins of what `messages` returns: for a conversation that is
   * shown after it was out of focus, or not connected, for a while. Spec: P-5.11.
   */
  async loadNotes(conv: string, options?: CallOptions): Promise<void> {
    const held = this.messages(conv)
    const after = (held[0]?.seq ?? 0) - 1
    let before = (held.at(-1)?.seq ?? 0) + 1
    while (held.length > 0 && before > after + 1) {
      const page = await this.history({ conv, after, before, onlyNotes: true }, options)
      this.turns.apply((core) => notesCame(core, conv, page.notes))
      if (!page.more || page.coveredFrom === 0 || page.coveredFrom >= before) return
      before = page.coveredFrom
    }
  }

  /** Calls a method over the connection, or over HTTP if the server does not offer that. It waits until the client is live, at most for timeoutMs. */
  override call<M extends Method>(method: M, request: RequestOf<M>, options: CallOptions = {}): Promise<ResponseOf<M>> {
    return this.#requests.within(options, (signal) => this.#requests.call(method, request, signal)) as Promise<ResponseOf<M>>
  }

  protected override noted(conv: string, { note }: ResponseOf<'petrel.v1.MessageService/React'>): void {
    if (note) this.turns.apply((core) => notesCame(core, conv, eventsOf({ notes: [note] }).notes))
  }

  // --- bots ---

  /**
   * The texts and data that others send to the user, in all conversations, those of one
   * conversation in the order of their seqs. Own messages, repeats, and messages that were
   * recalled meanwhile are left out.
   *
   * A message is finished when the loop asks for the next one. Then its position is in the
   * store, and the user's read cursor moves over it. A message that is not finished comes
   * again, after a crash as after a loop that was left by break: no message is skipped, and
   * the one that a crash has met comes twice. A reply whose id is made of the seq is stored
   * once all the same.
   *
   * The first loop of a store begins at the read cursors; conversations that come later begin
   * with the first message that the user may read. The loop ends when signal is aborted.
   */
  incoming(signal?: AbortSignal): AsyncGenerator<Message, void, void> {
    return incoming({
      turns: this.turns, changes: (until) => this.changes(until), history: (q, until) => this.#requests.history(q, until),
      markRead: (conv, seq) => this.markRead(conv, seq),
    }, signal)
  }
}

/** A change that names all that there is. */
function everything(core: Core): Change {
  return { conversations: new Set(core.convs.keys()), list: true, status: true, account: true, unread: true, signals: true, presence: true, pending: true }
}

function sentOr(m: Outgoing): Outgoing {
  if (m.state === 'sent') return m
  throw new PetrelError(m.error ?? unknowable)
}
