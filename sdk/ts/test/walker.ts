// A long random walk of a person with two tabs, and of a peer with a bot, against a real
// server. In the end every page shows what the log of the server has, and was told all of it
// once.
import assert from 'node:assert/strict'
import { IDBFactory } from 'fake-indexeddb'
import WebSocket from 'ws'
import {
  Auth, type Change, Client, type Draft, isPetrelError, memoryStore, type Message, type Row, SavedTokens, type Store, browserStore, browserTokens, type Tokens,
} from '../src/index.js'
import { FakeBrowser } from './fakes.js'
import { type Fault, Links } from './links.js'
import type { Server } from './server.js'

/** Numbers from 0 to below n, the same for the same seed. */
function numbers(seed: number): (n: number) => number {
  let x = seed * 2654435761 >>> 0 || 1
  return (n) => {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    return (x >>> 0) % n
  }
}

const speed = 10 // of the clocks of the pages
const patienceMs = 60_000

const moment = (ms = 1): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A message that a page has composed. */
interface Composed {
  readonly id: string
  readonly user: string
  readonly to: string // a conversation, or '@' and a user
  readonly text: string
  sure: boolean // it is stored exactly once
  seen: boolean // a page has shown it as stored
  maybe: boolean // the server went back, or the person has logged out, after it was stored
  gone: boolean // it was shown as rejected
  past: boolean // the history has changed since: its entry may be below those that the page begins with
  readonly after: number // the highest seq of which the page knew then
  readonly step: number // in which it was composed
  readonly by: string // the page
}

interface View {
  readonly told: number[] // seqs, in the order in which they came
  begun: number // the seq with which the page has begun, or begun anew
  read: number // how far the user has read
  readers: ReadonlyMap<string, number> // how far others have
  readonly ids: Map<string, number>
  isStale: boolean // something has changed since all was read
  all: readonly Message[]
}

/** The database of a browser, as one page sees it. */
interface Database {
  next: '' | 'InvalidStateError' | 'QuotaExceededError' | 'gone' // how its next write ends; gone: so is the page, and writes nothing more
}

function faulty(factory: IDBFactory, page: Database): globalThis.IDBFactory {
  const open = (name: string, version: number): IDBOpenDBRequest => {
    if (page.next === 'gone') throw new DOMException('the page is gone', 'NotFoundError')
    const request = factory.open(name, version)
    request.addEventListener('success', () => {
      const db = request.result
      const transaction = db.transaction.bind(db)
      db.transaction = (...args: Parameters<typeof transaction>) => {
        const fault = args[1] === 'readwrite' ? page.next : ''
        if (fault === '') return transaction(...args)
        if (fault !== 'gone') page.next = ''
        throw new DOMException('the walk has broken the database', fault === 'gone' ? 'NotFoundError' : fault)
      }
    })
    return request as unknown as IDBOpenDBRequest
  }
  return { open, deleteDatabase: (name: string) => factory.deleteDatabase(name), databases: () => factory.databases(), cmp: factory.cmp } as unknown as globalThis.IDBFactory
}

/** A page: what its application composes, and what it is told. It reads only what a change names. */
class Page {
  readonly links: Links
  readonly client: Client
  readonly name: string
  readonly user: string
  readonly open = new Map<string, Composed>() // that are not shown as entries
  views = new Map<string, View>()
  history = ''
  list: readonly string[] = []
  unread: unknown
  isOver = false // the page is gone
  readonly database: Database
  readonly #walk: Walk

  constructor(walk: Walk, name: string, user: string, links: Links, client: Client, database: Database = { next: '' }) {
    this.#walk = walk
    this.database = database
    this.name = name
    this.user = user
    this.links = links
    this.client = client
    client.subscribe((change) => this.#look(change))
    client.connect()
  }

  #look(change: Change): void {
    if (this.isOver) return
    try {
      this.#read(change)
    } catch (why) {
      this.#walk.fail(`${this.name}: ${why instanceof Error ? why.message : String(why)}`)
    }
  }

  #read({ conversations, list, unread }: Change): void {
    const { history } = this.client.status()
    if (history !== this.history) {
      this.history = history
      this.views = new Map()
      for (const m of this.open.values()) m.past = true
    }
    if (list) this.list = this.client.conversations().map((v) => v.id).sort()
    if (unread) this.unread = this.client.unread()
    for (const conv of conversations) this.#readOne(conv)
  }

  #readOne(conv: string): void {
    const v = this.client.conversation(conv)
    if (!v) {
      this.views.delete(conv)
      return
    }
    const view = this.views.get(conv) ?? { told: [], begun: 0, read: 0, readers: new Map<string, number>(), ids: new Map<string, number>(), isStale: true, all: [] }
    this.views.set(conv, view)
    assert.ok(v.read >= view.read, `${conv}: read up to ${view.read}, and then up to ${v.read}`)
    view.read = v.read
    for (const [user, read] of view.readers) assert.ok((v.receipts.get(user)?.read ?? 0) >= read, `${conv}: ${user} had read up to ${read}, and then up to ${v.receipts.get(user)?.read}`)
    view.readers = new Map([...v.receipts].map(([user, r]) => [user, r.read]))
    for (const m of this.client.messages(conv, view.told.at(-1) ?? 0)) {
      assert.ok(m.seq > (view.told.at(-1) ?? 0), `${conv}: seq ${m.seq} was shown after ${view.told.at(-1)}`)
      if (m.seq > (view.told.at(-1) ?? 0) + 1) view.begun = m.seq
      view.told.push(m.seq)
      if (m.clientMsgId === '') continue
      const key = `${m.from}/${m.clientMsgId}`
      assert.ok(!view.ids.has(key), `${conv}: message ${key} is shown at ${view.ids.get(key)} and at ${m.seq}: ${this.#walk.story(m.clientMsgId)}`)
      view.ids.set(key, m.seq)
    }
    view.isStale = true
    const to = v.peer === '' ? conv : `@${v.peer}`
    const pending = new Map(this.client.pending(conv).map((o) => [o.id, o]))
    for (const [id, { state }] of pending) {
      const at = view.ids.get(`${this.user}/${id}`) ?? 0
      assert.ok(at < (this.client.messages(conv, 0, 1)[0]?.seq ?? Infinity), `${conv}: message ${id} is ${state}, and shown at ${at}`)
      if (state !== 'sending' && state !== 'sent' && !this.#walk.isOpen(id)) queueMicrotask(() => this.client.discard(id)) // of a page that is gone
    }
    for (const m of this.open.values()) {
      if (m.to !== to) continue
      const o = pending.get(m.id)
      if (view.ids.has(`${this.user}/${m.id}`)) {
        m.seen = true
        this.open.delete(m.id)
      } else if (!o) {
        if (!m.maybe && this.name !== 'bot' && (v.have < v.head || !this.client.status().synced)) continue // another tab has sent it, and its entry is on its way to this one
        if (m.past) m.seen = true // the log tells
        if (view.begun > m.after + 1) { // too much was missing, and the page has begun anew above it: the log tells
          this.open.delete(m.id)
          continue
        }
        assert.ok(m.maybe || m.past, `${conv}: message ${m.id} is neither on its way nor stored: ${JSON.stringify([m, v.have, v.head, view.told[0], view.told.at(-1), this.client.messages(conv)[0]?.seq])}, composed at step ${m.step}`)
        this.open.delete(m.id)
      } else if (o.state === 'rejected') {
        assert.ok(!m.sure, `${conv}: message ${m.id} is rejected: ${o.error?.code}`)
        m.gone = true
        this.open.delete(m.id)
        queueMicrotask(() => this.client.discard(m.id))
      } else if (o.state === 'unknowable') { // the log tells
        this.open.delete(m.id)
        queueMicrotask(() => this.client.discard(m.id))
      } else if (o.state === 'sent') { // its entry is not there yet
        m.seen = true
        this.#walk.sentWithoutEntry(this)
      }
    }
  }
}

/** A store that fails when the walk wants it to. */
class Disk {
  readonly #store = memoryStore()
  #life = 0
  #next: '' | 'before' | 'after' = ''
  failed = false

  fail(when: 'before' | 'after'): void {
    this.#next = when
  }

  works(): void {
    this.#next = ''
  }

  open(): Store {
    const life = ++this.#life
    this.failed = false
    return {
      load: () => this.#store.load(),
      write: async (rows: readonly Row[], durable: boolean) => {
        if (life !== this.#life || this.failed) throw new Error('the walk has broken the disk')
        const fault = this.#next
        this.#next = ''
        if (fault !== '') this.failed = true
        if (fault !== 'before') await this.#store.write(rows, durable)
        if (fault !== '') throw new Error('the walk has broken the disk')
      },
      close: async () => {},
      wipe: () => this.#store.wipe(),
    }
  }

  /** The running process writes no more. */
  crash(): void {
    this.#life++
    this.failed = true
  }
}

export class Walk {
  readonly met = new Map<string, number>() // what has happened, and how often
  readonly seed: number
  error = ''
  step = 0
  readonly #server: Server
  readonly #random: (n: number) => number
  readonly #alice: string
  readonly #bob: string
  #browser = new FakeBrowser(speed)
  #factory = new IDBFactory()
  #tabs: Page[] = []
  #frozen: Page | undefined
  #opened = 0
  #logins = 0
  #bot: Page | undefined
  readonly #disk = new Disk()
  readonly #got: { readonly life: number; readonly history: string; readonly conv: string; readonly seq: number; readonly id: string }[] = [] // of the loop of the bot
  #life = 0
  #botToken = ''
  #loop: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined
  #group = ''
  readonly #composed: Composed[] = []
  #expired = false
  #isLoggedOut = false
  #wantsOut = false // alice logs out as soon as one of her tabs is live and none is frozen
  #isLeaving = false // alice logs out: messages that she still composes may be lost
  #loseAnswer = false
  #crashesSoon = false // the bot crashes when a message of it is stored whose entry is not there yet
  #calls = 0

  constructor(server: Server, seed: number) {
    this.#server = server
    this.seed = seed
    this.#random = numbers(seed)
    this.#alice = `alice${seed}`
    this.#bob = `bob${seed}`
  }

  fail(why: string): void {
    this.error ||= `seed ${this.seed}, step ${this.step}: ${why}`
  }

  #note(what: string): void {
    this.met.set(what, (this.met.get(what) ?? 0) + 1)
  }

  #one<T>(of: readonly T[]): T {
    return of[this.#random(of.length)] as T
  }

  // --- pages ---

  /** Where a message comes from. */
  story(id: string): string {
    return JSON.stringify(this.#composed.find((m) => m.id === id))
  }

  /** Whether a page looks at what becomes of a message. */
  isOpen(id: string): boolean {
    return this.#tabs.some((p) => p.open.has(id)) || this.#bot?.open.has(id) === true
  }

  /** A message of a page is stored, and entries before it are missing. */
  sentWithoutEntry(page: Page): void {
    if (!this.#crashesSoon || page !== this.#bot) return
    this.#crashesSoon = false
    this.#note('crash before an entry')
    this.#disk.crash() // the next step restarts it
  }

  async begin(): Promise<void> {
    const { conv } = await this.#server.admin('AdminService/CreateGroup', {
      key: `g${this.seed}`, title: 'group', members: [{ user: this.#alice, role: 'ROLE_OWNER' }, { user: this.#bob, role: 'ROLE_MEMBER' }],
    }) as { conv: string }
    this.#group = conv
    this.#botToken = (await this.#mint(this.#bob, 'bot')).access
    await this.#logIn()
    this.#startBot()
    for (const p of [...this.#tabs, this.#bot as Page]) await this.#until(() => p.client.status().synced, () => `${p.name} does not sync: ${JSON.stringify(p.client.status())}`)
  }

  async #mint(user: string, device: string): Promise<Tokens> {
    const r = await this.#server.admin('AdminService/MintToken', { user, device: { id: `${device}-${this.seed}` } }) as { user: string; device: string; accessToken: string; accessExpiresMs: string; refreshToken: string; refreshExpiresMs: string }
    return { user: r.user, device: r.device, access: r.accessToken, accessExpiresMs: Number(r.accessExpiresMs), refresh: r.refreshToken, refreshExpiresMs: Number(r.refreshExpiresMs), requestId: `${device}-${this.seed}-${this.#logins}` }
  }

  get #account(): string {
    return `${this.#alice}/${this.#logins}`
  }

  /** Logs alice in, and opens her tabs. */
  async #logIn(): Promise<void> {
    this.#logins++
    const tokens = await this.#mint(this.#alice, `web${this.#logins}`)
    const saved = new SavedTokens(new Auth(this.#server.url), browserTokens(this.#account, this.#factory, undefined))
    await saved.save(tokens)
    this.#tabs = []
    for (let i = 0; i < 2; i++) this.#openTab()
  }

  #openTab(): Page {
    const name = `tab${++this.#opened}`
    const links = new Links()
    const database: Database = { next: '' }
    const locks = this.#browser.tab(name).locks
    const auth = new Auth(this.#server.url, async (address, init) => {
      const answer = await fetch(address, init)
      if (this.#loseAnswer) {
        this.#loseAnswer = false
        this.#note('refresh whose answer is lost')
        throw new Error('the walk has lost the answer')
      }
      return answer
    })
    const saved = new SavedTokens(auth, browserTokens(this.#account, this.#factory, locks))
    let isRenewing = false
    const token = async (refused: string): Promise<string> => {
      if (this.#isLoggedOut) throw new Error('nobody is logged in')
      if (refused !== '') isRenewing = true
      else if (this.#expired && !isRenewing) {
        this.#expired = false
        return `${((await saved.read())?.access ?? '').slice(0, -3)}abc`
      }
      const got = await saved.token(isRenewing ? (await saved.read())?.access ?? '' : '', new AbortController().signal)
      isRenewing = false
      return got
    }
    const client = new Client({
      url: this.#server.url, token, webSocket: links.sockets(), device: `web${this.#logins}-${this.seed}`, clock: this.#browser.clock(name), newest: 5, keep: 200,
      store: browserStore(this.#account, { indexedDB: faulty(this.#factory, database), browser: this.#browser.tab(name) }),
    })
    const page = new Page(this, name, this.#alice, links, client, database)
    this.#tabs.push(page)
    return page
  }

  /** The page is gone, and opened again. */
  #reload(page: Page): void {
    this.#browser.kill(page.name)
    this.#end(page)
    page.links.cut()
    if (this.#frozen === page) this.#frozen = undefined
    this.#tabs = this.#tabs.filter((p) => p !== page)
    const next = this.#openTab()
    for (const m of page.open.values()) next.open.set(m.id, m)
    next.open.clear() // another tab may send them; the log tells
  }

  #end(page: Page): void {
    page.isOver = true
    page.database.next = 'gone'
    for (const [what, n] of page.links.met) this.met.set(what, (this.met.get(what) ?? 0) + n)
    page.links.met.clear()
  }

  #startBot(): void {
    this.#life++
    const links = new Links()
    const client = new Client({ url: this.#server.url, token: this.#botToken, webSocket: links.sockets(), store: this.#disk.open(), clock: new FakeBrowser(speed).clock('bot'), keep: 100_000 })
    const page = new Page(this, 'bot', this.#bob, links, client)
    for (const m of this.#bot?.open.values() ?? []) page.open.set(m.id, m)
    this.#bot = page
    const stop = new AbortController()
    const life = this.#life
    const read = async (): Promise<void> => {
      try {
        for await (const m of client.incoming(stop.signal)) {
          if (page.isOver) return
          this.#got.push({ life, history: client.status().history, conv: m.conv, seq: m.seq, id: `${m.from}/${m.clientMsgId}` })
        }
      } catch (why) {
        if (!page.isOver && !this.#disk.failed) this.fail(`the loop of the bot: ${String(why)}`)
      }
    }
    this.#loop = { stop, ended: read() }
  }

  async #restartBot(crash: boolean): Promise<void> {
    const page = this.#bot as Page
    if (crash) this.#disk.crash()
    this.#end(page)
    this.#loop?.stop.abort()
    page.links.thaw()
    page.links.cut()
    await page.client.close().catch(() => {})
    await this.#loop?.ended
    this.#startBot()
  }

  async #until(shows: () => boolean, why: () => string, ms = patienceMs): Promise<void> {
    const end = Date.now() + ms
    while (!shows() && this.error === '') {
      if (Date.now() > end) this.fail(why())
      await moment(2)
    }
  }

  // --- steps ---

  async walk(from: number, to: number): Promise<void> {
    for (this.step = from; this.step < to && this.error === ''; this.step++) {
      await this.#next()
      if (this.step % 8 === 0) await new Promise((resolve) => setImmediate(resolve))
      if (this.#random(16) === 0) await this.#pause()
    }
  }

  /** A step takes no time, but a connection does: without pauses most steps would meet pages that are offline. */
  async #pause(): Promise<void> {
    const isLive = (): boolean => this.#tabs.some((p) => p !== this.#frozen && p.client.status().state === 'live')
    for (const end = Date.now() + 30; !isLive() && Date.now() < end;) await moment()
  }

  async #next(): Promise<void> {
    const bot = this.#bot as Page
    if (this.#disk.failed) await this.#restartBot(false)
    for (const p of [...this.#tabs, this.#bot as Page]) {
      const { error } = p.client.status()
      if (error?.code === 'replaced') return this.fail(`${p.name} takes what came over an earlier connection`)
      if (error?.kind === 'store' && p !== this.#bot) this.#reload(p)
    }
    const page = this.#random(3) === 0 ? bot : this.#one(this.#tabs)
    if (page === this.#frozen) {
      if (this.#random(10) === 0) this.#thaw()
      return
    }
    if (this.#wantsOut && page !== bot && !this.#frozen && page.client.status().state === 'live') {
      this.#wantsOut = false
      return this.#logOut(page)
    }
    const k = this.#random(1000)
    if (k < 330) await this.#write(page)
    else if (k < 380) this.#change(page)
    else if (k < 385) await this.#whole(page)
    else if (k < 700) this.#use(page)
    else if (k < 960) this.#disturb(page)
    else await this.#trouble(page)
  }

  #to(page: Page): string {
    return this.#random(3) > 0 ? this.#group : `@${page.user === this.#alice ? this.#bob : this.#alice}`
  }

  #conv(page: Page, to: string): string {
    return to.startsWith('@') ? page.client.direct(to.slice(1)) : to
  }

  #pending(page: Page, to: string): number {
    return (to.startsWith('@') ? page.client.pendingTo(to.slice(1)) : page.client.pending(to)).filter((o) => o.state === 'sending').length
  }

  async #write(page: Page): Promise<void> {
    const to = this.#to(page)
    if (this.#pending(page, to) > 4) {
      if (page.client.status().state !== 'live') {
        page.client.wakeUp()
        return
      }
      const since = Date.now()
      const isSettled = (): boolean => {
        if (Date.now() - since > 5000) this.#thawAll() // the walk stands still, and nobody else does
        return this.#pending(page, to) <= 4 || page.client.status().state !== 'live'
      }
      await this.#until(isSettled, () => `${page.name} of ${this.#who()}: nothing to ${to} is settled: ${this.#states(to)}`)
    }
    const text = `${page.name} ${this.step}`
    const conv = this.#conv(page, to)
    const own = this.#random(12) === 0 ? { id: `own-${this.seed}-${this.step}` } : {}
    const answers = this.#entry(page, to, false)
    const replyTo = answers && this.#random(8) === 0 ? { replyTo: answers.seq } : {}
    await this.#send(page, to, { ...(conv === '' || to.startsWith('@') && this.#random(2) === 0 ? { user: to.slice(1) } : { conv }), ...own, ...replyTo, text }, !('replyTo' in replyTo))
  }

  /** The states that the pages show for the messages to a conversation. */
  #states(to: string): string {
    const of = (p: Page): unknown => {
      const conv = this.#conv(p, to)
      const { state, error } = p.client.status()
      return [p.name, state, error?.message, p.client.conversation(conv)?.have, p.client.conversation(conv)?.head, to.startsWith('@') ? p.client.pendingTo(to.slice(1)) : p.client.pending(to)]
    }
    return JSON.stringify([...this.#tabs, this.#bot as Page].map(of), (key, value: unknown) => key === 'draft' ? undefined : value)
  }

  async #send(page: Page, to: string, draft: Draft, sure: boolean): Promise<void> {
    const after = page.client.conversation(this.#conv(page, to))?.head ?? 0
    const taken = page.client.send(draft).then(({ id }) => {
      const m: Composed = { id, user: page.user, to, text: draft.text ?? draft.edit?.text ?? '', sure, seen: false, maybe: page.isOver || this.#isLeaving && page !== this.#bot, gone: false, past: false, after, step: this.step, by: page.name } // a page that is gone writes nothing
      this.#composed.push(m)
      if (!page.isOver) page.open.set(id, m)
    }).catch((why: unknown) => {
      if (page.isOver || this.#disk.failed || isPetrelError(why) && why.kind === 'store') this.#composed.push({ id: '', user: page.user, to, text: draft.text ?? draft.edit?.text ?? '', sure: false, seen: false, maybe: true, gone: false, past: false, after, step: this.step, by: page.name })
      else this.fail(`${page.name}: send: ${String(why)}`)
    })
    await Promise.race([taken, moment(50)]) // a page that is frozen meanwhile takes its time
  }

  #entry(page: Page, to: string, own: boolean): Message | undefined {
    const conv = this.#conv(page, to)
    const last = page.views.get(conv)?.told.at(-20) ?? 0
    const all = page.client.messages(conv, last).filter((m) => m.text !== undefined && (!own || m.from === page.user))
    return all.length === 0 ? undefined : this.#one(all)
  }

  #change(page: Page): void {
    const to = this.#to(page)
    const m = this.#entry(page, to, true)
    if (!m || this.#pending(page, to) > 6) return
    if (this.#random(3) === 0) void this.#send(page, to, { conv: m.conv, recall: { target: m.seq } }, false)
    else void this.#send(page, to, { conv: m.conv, edit: { target: m.seq, text: `${page.name} ${this.step} again` } }, false)
  }

  #use(page: Page): void {
    const to = this.#to(page)
    const conv = this.#conv(page, to)
    const m = this.#entry(page, to, false)
    switch (this.#random(8)) {
      case 0: case 1: case 2:
        page.client.markRead(conv, Math.max(0, (page.client.conversation(conv)?.have ?? 0) - this.#random(3)))
        break
      case 3:
        if (m) this.#call(page.client.react(m.conv, m.seq, this.#one(['+', 'heart']), this.#random(3) === 0))
        break
      case 4:
        if (page !== this.#bot) page.client.focus(this.#random(2) === 0 ? undefined : [conv])
        break
      case 5:
        page.client.typing(conv)
        break
      case 6:
        this.#call(page.client.older(conv, 10))
        break
      default:
        if (m?.rel?.replyTo) page.client.quote(m.conv, m.rel.replyTo)
    }
  }

  /** Waits until a page that is connected has what it has heard of: it asks for what is missing by itself. */
  async #whole(page: Page): Promise<void> {
    page.client.focus()
    const since = Date.now()
    const isLess = (): boolean => page.client.status().synced && page.client.conversations().some((v) => v.have < v.head)
    await this.#until(() => {
      if (Date.now() - since > 5000) this.#thawAll() // the walk stands still, and nobody else does
      return !isLess()
    }, () => `${page.name} of ${this.#who()} does not ask for what is missing: ${JSON.stringify(page.client.conversations().map((v) => [v.id, v.have, v.head]))}`)
  }

  /** A call beside the walk. Its object may not be there any more. */
  #call(of: Promise<unknown>): void {
    this.#calls++
    of.catch((why: unknown) => {
      const code = isPetrelError(why) ? why.code : String(why)
      if (!['', 'no_target', 'forbidden', 'invalid', 'rate_limited', 'no_conversation', 'draining', 'revoked', 'unauthenticated', 'overloaded', 'store_stalled', 'unavailable'].includes(code)) this.fail(`a call: ${code}`)
    })
  }

  #disturb(page: Page): void {
    const k = this.#random(20)
    const leader = this.#tabs.find((p) => p.links.size > 0) ?? page
    const of = page === this.#bot ? page : leader
    if (k < 14) of.links.arm(this.#one<Fault>(['push lost', 'frame doubled', 'frame overtaken', 'push lost', 'frame doubled', 'frame overtaken', 'answer lost', 'cut before a write', 'cut after a write']), 1)
    else if (k < 17) page.client.wakeUp()
    else {
      this.#thawAll()
    }
  }

  /** The names of the pages, their states, and how many sockets each has. */
  #who(): string {
    return [...this.#tabs, this.#bot as Page].map((p) => `${p.name} ${p.client.status().state} with ${p.links.size} sockets`).join(', ')
  }

  #thawAll(): void {
    this.#thaw()
    for (const p of [...this.#tabs, this.#bot as Page]) p.links.thaw()
  }

  #thaw(): void {
    if (!this.#frozen) return
    this.#note('tab thawed')
    const page = this.#frozen
    this.#frozen = undefined
    this.#browser.thaw(page.name)
    page.links.thaw()
  }

  async #trouble(page: Page): Promise<void> {
    const isBot = page === this.#bot
    const leader = this.#tabs.find((p) => p.links.size > 0) ?? page
    const k = this.#random(100)
    if (k < 12) {
      this.#note(isBot ? 'restart' : page === leader ? 'leader reloaded' : 'tab reloaded')
      if (isBot) await this.#restartBot(false)
      else this.#reload(page)
    } else if (k < 14 && isBot) {
      this.#note('crash')
      await this.#restartBot(true)
    } else if (k < 16 && isBot) {
      this.#crashesSoon = true
      page.links.arm('push lost', 2)
    } else if (k < 24 && isBot) {
      this.#note('disk')
      this.#disk.fail(this.#one(['before', 'after']))
    } else if (k < 30) {
      this.#note('cut')
      page.links.cut()
      leader.links.cut()
    } else if (k < 36 && !this.#frozen) {
      this.#note('leader frozen')
      this.#frozen = leader === this.#bot ? undefined : leader
      if (this.#frozen) {
        this.#browser.freeze(leader.name)
        leader.links.freeze()
      }
    } else if (k < 40 && !this.#frozen && !isBot && page !== leader) {
      this.#note('tab frozen')
      this.#frozen = page
      this.#browser.freeze(page.name)
    } else if (k < 44) {
      this.#note('link frozen')
      const of = isBot ? page : leader
      of.links.freeze()
      of.client.wakeUp()
    } else if (k < 52) {
      this.#note('token expired')
      this.#expired = true
      leader.links.cut()
    } else if (k < 56) this.#loseAnswer = true
    else if (k < 60 && !isBot) {
      this.#note('database')
      page.database.next = this.#one(['InvalidStateError', 'QuotaExceededError']) // its connection is dead, or there is no room
    } else if (k < 61 && !isBot) this.#wantsOut = true
  }

  /** Alice logs out in one tab, and in again. */
  async #logOut(page: Page): Promise<void> {
    this.#note('logged out')
    this.#isLeaving = true
    for (const p of this.#tabs) for (const m of p.open.values()) m.maybe = true
    for (const m of this.#composed) if (!m.seen) m.sure = false
    const others = this.#tabs.filter((p) => p !== page)
    try {
      await Promise.race([page.client.logout(), moment(patienceMs).then(() => Promise.reject(new Error('it does not end')))])
    } catch (why) {
      if (!isPetrelError(why)) this.fail(`log out: ${String(why)}`)
      await page.client.forget()
    }
    const hasEnded = ({ error }: ReturnType<Client['status']>): boolean => error?.kind === 'store' || error?.code === 'revoked' || error?.code === 'unauthenticated'
    for (const p of others) {
      await this.#until(() => hasEnded(p.client.status()), () => `${p.name} goes on after a logout: ${JSON.stringify(p.client.status())}`)
    }
    const isLeft = async (): Promise<boolean> => (await this.#factory.databases()).some((db) => db.name === `petrel:${this.#account}`)
    for (const end = Date.now() + patienceMs; await isLeft() && Date.now() < end;) await moment() // the server has told the others too: each of them removes it, and opens it for that
    for (const p of this.#tabs) {
      this.#browser.kill(p.name)
      this.#end(p)
      p.links.cut()
    }
    if (await isLeft()) this.fail('a database is left after a logout')
    this.#isLeaving = false
    await this.#logIn()
  }

  // --- breaks ---

  /** The server is gone, and is put back to an earlier state: settled messages may be lost. */
  async goBack(): Promise<void> {
    this.#thawAll()
    const pages = [...this.#tabs, this.#bot as Page]
    await this.#until(() => pages.every((p) => p.client.status().state !== 'live'), () => `a page does not notice that the server is gone: ${this.#who()}`)
    const isPending = (p: Page, m: Composed): boolean => p.client.pending(this.#conv(p, m.to)).some((o) => o.id === m.id && o.state === 'sending')
    await moment(20) // a tab that was frozen hears what it has missed
    for (const m of this.#composed) m.maybe ||= m.seen || !pages.every((p) => p.user !== m.user || isPending(p, m))
    this.#isLoggedOut = true
    const bot = this.#bot as Page
    this.#end(bot)
    this.#loop?.stop.abort()
    await bot.client.close()
    await this.#loop?.ended
  }

  /** It is there again. Its newest tokens are gone. */
  async cameBack(): Promise<void> {
    const saved = new SavedTokens(new Auth(this.#server.url), browserTokens(this.#account, this.#factory, undefined))
    await saved.save(await this.#mint(this.#alice, `web${this.#logins}`))
    this.#isLoggedOut = false
    this.#startBot()
    for (const p of [...this.#tabs]) if (p.client.status().error !== undefined && p.client.status().state === 'offline') this.#reload(p)
  }

  // --- the end ---

  async settle(): Promise<void> {
    this.#thaw()
    this.#disk.works()
    this.#loseAnswer = false
    this.#crashesSoon = false
    if (this.#disk.failed) await this.#restartBot(false)
    for (const p of this.#tabs) p.database.next = ''
    for (const p of [...this.#tabs]) if (p.client.status().error?.kind === 'store') this.#reload(p)
    for (const p of [...this.#tabs, this.#bot as Page]) {
      p.links.heal()
      p.client.focus()
      p.links.cut()
      p.client.wakeUp()
    }
    for (const p of [...this.#tabs, this.#bot as Page]) {
      await this.#until(() => p.client.status().synced && p.open.size === 0 && this.#pending(p, this.#group) === 0, () => `${p.name} of ${this.#who()}: ${p.open.size} messages are not shown as stored: ${JSON.stringify([...p.open.values()])} ${this.#states(this.#group)}`)
    }
    await this.#untilUnsent()
  }

  async #untilUnsent(): Promise<void> {
    const end = Date.now() + patienceMs
    for (;;) {
      const left = await (this.#tabs[0] as Page).client.unsent()
      if (left === 0) return
      if (Date.now() > end) return this.fail(`${left} messages are never sent`)
      await moment(10)
    }
  }

  /** Compares everything with what the server says. */
  async audit(): Promise<void> {
    for (const [user, pages] of [[this.#alice, this.#tabs], [this.#bob, [this.#bot as Page]]] as const) {
      let truth = await ask(this.#server.url, (await this.#mint(user, 'auditor')).access)
      for (const p of pages) {
        let last = ''
        let asked = Date.now()
        await this.#until(() => (last = this.#differs(p, truth)) === '' || Date.now() - asked > 1000, () => `${p.name}: ${last}`)
        while (last !== '' && this.error === '' && Date.now() - asked < patienceMs) {
          truth = await ask(this.#server.url, (await this.#mint(user, 'auditor')).access)
          last = this.#differs(p, truth)
          if (last !== '') await moment(500)
        }
        if (last !== '') this.fail(`${p.name}: ${last}`)
        for (const conv of truth.logs.keys()) await p.client.loadNotes(conv, { timeoutMs: speed * patienceMs })
        for (const [conv, log] of truth.logs) this.#compare(p, conv, log)
      }
      this.#ledger(user, truth)
      if (user === this.#bob) await this.#incoming(truth)
    }
  }

  #differs(p: Page, truth: Truth): string {
    const ids = [...truth.states.keys()].sort()
    if (p.list.join() !== ids.join()) return `conversations ${p.list.join()}, want ${ids.join()}`
    if (p.unread !== p.client.unread()) return 'the unread total has changed, and no change told of it'
    for (const [id, s] of truth.states) {
      const v = p.client.conversation(id)
      const view = p.views.get(id)
      if (!v || !view) return `${id}: no change has named it`
      if (view.isStale) [view.isStale, view.all] = [false, p.client.messages(id)]
      if (view.all !== p.client.messages(id)) return `${id}: messages have changed, and no change told of it`
      const got = [v.title, v.peer, v.left, v.head, v.have, v.read].join()
      const want = [s.title ?? '', s.peer ?? '', s.left ?? false, Number(s.head), Number(s.head), Number(s.read ?? 0)].join()
      if (got !== want) return `${id}: ${got}, want ${want}`
      const log = truth.logs.get(id) ?? []
      const own = ownAbove(log, p.user, v.read) // a page may not have met them as new messages
      const most = Math.max(0, Number(s.counted ?? 0) - Number(s.readCounted ?? 0))
      if (v.unread > most || v.unread < most - own) return `${id}: unread ${v.unread}, want ${most - own} to ${most}`
    }
    return ''
  }

  #compare(p: Page, conv: string, log: readonly Wire[]): void {
    const all = p.client.messages(conv)
    const first = all[0]?.seq ?? 0
    const want = log.filter((m) => Number(m.seq) >= first)
    const told = p.views.get(conv)?.told.filter((seq) => seq >= first) ?? []
    const missing = all.find((m) => m.seq >= (told[0] ?? 0) && !told.includes(m.seq))
    if (missing) this.fail(`${p.name}: ${conv} seq ${missing.seq} was never told`)
    for (let i = 0; i < Math.max(all.length, want.length); i++) {
      const [got, real] = [all[i] && outlineOf(all[i] as Message), want[i] && outline(want[i] as Wire)]
      if (got !== real) return this.fail(`${p.name}: ${conv} holds ${got}, want ${real}`)
    }
  }

  #ledger(user: string, truth: Truth): void {
    const stored = new Map<string, { readonly conv: string; readonly m: Wire }[]>()
    for (const [conv, log] of truth.logs) {
      for (const m of log) if (m.from === user && m.clientMsgId) stored.set(m.clientMsgId, [...stored.get(m.clientMsgId) ?? [], { conv, m }])
    }
    const texts = new Set(this.#composed.map((m) => m.text))
    for (const m of this.#composed) {
      if (m.user !== user) continue
      const at = stored.get(m.id) ?? []
      if (at.length > 1) this.fail(`message ${m.id} is stored ${at.length} times`)
      if (at.length === 1 && m.gone) this.fail(`message ${m.id} was shown as rejected, and is stored`)
      if (at.length === 0 && (m.sure || m.seen) && !m.maybe && !m.gone) this.fail(`message ${m.id}, '${m.text}', is not stored: ${JSON.stringify(m)}`)
    }
    for (const [id, at] of stored) for (const { m } of at) if (m.text && !texts.has(m.text)) this.fail(`nobody has composed ${id}, '${m.text}'`)
  }

  async #incoming(truth: Truth): Promise<void> {
    let missing = ''
    await this.#until(() => {
      const told = new Set(this.#got.map((m) => `${m.conv} ${m.id}`))
      missing = ''
      for (const [conv, log] of truth.logs) {
        for (const m of log) if (m.from && m.from !== this.#bob && m.text && !told.has(`${conv} ${m.from}/${m.clientMsgId}`)) missing = `${conv} seq ${m.seq}`
      }
      return missing === ''
    }, () => `the loop of the bot did not get ${missing}`)
    const last = new Map<string, { readonly life: number; readonly history: string; readonly seq: number }>()
    for (const m of this.#got) {
      const p = last.get(m.conv)
      last.set(m.conv, m)
      if (!p || p.history !== m.history) continue
      if (m.seq < p.seq || m.seq === p.seq && m.life === p.life) this.fail(`the loop of the bot got ${m.conv} seq ${m.seq} after ${p.seq}, lives ${m.life} and ${p.life}`)
    }
  }

  async end(): Promise<void> {
    for (const p of [...this.#tabs, this.#bot as Page]) this.#end(p)
    this.#loop?.stop.abort()
    this.#thaw()
    await Promise.all([...this.#tabs, this.#bot as Page].map((p) => p.client.close().catch(() => {})))
  }
}

// --- what the server says ---

interface Wire {
  readonly seq: string
  readonly from?: string
  readonly clientMsgId?: string
  readonly text?: string
  readonly counted?: string
  readonly editedBy?: string
  readonly recalledBy?: string
  readonly edit?: { readonly target?: string }
  readonly recall?: { readonly target?: string }
}

interface State {
  readonly conv: string
  readonly title?: string
  readonly peer?: string
  readonly left?: boolean
  readonly head: string
  readonly read?: string
  readonly counted?: string
  readonly readCounted?: string
}

interface Truth {
  readonly states: ReadonlyMap<string, State>
  readonly logs: ReadonlyMap<string, readonly Wire[]>
}

interface Frame {
  readonly id?: string
  readonly error?: { readonly code: string }
  readonly sync?: { readonly convs?: readonly State[]; readonly token?: string; readonly more?: boolean }
  readonly history?: { readonly messages?: readonly Wire[]; readonly more?: boolean }
}

/** Reads all that a user may read, over a connection that knows nothing of the SDK. */
async function ask(url: string, token: string): Promise<Truth> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/ws`)
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
  })
  let id = 0
  const waiting = new Map<string, (f: Frame) => void>()
  socket.on('message', (data) => {
    const f = JSON.parse(String(data)) as Frame
    waiting.get(f.id ?? '')?.(f)
  })
  const request = async (body: object): Promise<Frame> => {
    const f = await new Promise<Frame>((resolve) => {
      waiting.set(String(++id), resolve)
      socket.send(JSON.stringify({ id: String(id), ...body }))
    })
    if (f.error) throw new Error(`the auditor: ${f.error.code}`)
    return f
  }
  try {
    await request({ hello: { versionMin: 1, versionMax: 1, token, device: 'auditor', capabilities: ['rel', 'edit'] } })
    const states = new Map<string, State>()
    for (let next: string | undefined, more = true; more;) {
      const { sync } = await request({ sync: next === undefined ? {} : { token: next } })
      for (const s of sync?.convs ?? []) states.set(s.conv, s)
      next = sync?.token
      more = sync?.more === true
    }
    const logs = new Map<string, Wire[]>()
    for (const conv of states.keys()) {
      const log: Wire[] = []
      for (let more = true; more;) {
        const { history } = await request({ history: { conv, after: log.at(-1)?.seq ?? '0' } })
        log.push(...history?.messages ?? [])
        more = history?.more === true
      }
      logs.set(conv, log)
    }
    return { states, logs }
  } finally {
    socket.terminate()
  }
}

function ownAbove(log: readonly Wire[], user: string, read: number): number {
  let before = 0
  let n = 0
  for (const m of log) {
    const counted = Number(m.counted ?? 0)
    if (m.from === user && counted > before && Number(m.seq) > read) n++
    before = counted
  }
  return n
}

const outline = (m: Wire): string =>
  [Number(m.seq), m.from ?? '', m.clientMsgId ?? '', m.text ?? '', Number(m.counted ?? 0), m.edit || m.recalledBy ? 0 : Number(m.editedBy ?? 0), Number(m.recalledBy ?? 0), Number(m.edit?.target ?? 0), Number(m.recall?.target ?? 0)].join('|')

const outlineOf = (m: Message): string =>
  [m.seq, m.from, m.clientMsgId, m.text ?? '', m.counted, m.edit || m.recalledBy ? 0 : m.editedBy, m.recalledBy, m.edit?.target ?? 0, m.recall?.target ?? 0].join('|')
