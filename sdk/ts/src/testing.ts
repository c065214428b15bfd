// A server in memory, for tests of applications.
import { failure, type Failure } from './core/index.js'
import { type Connection, type ConnectionEvents, schemes, type Transport } from './transport.js'
import type { Code } from './wire/codes_gen.js'
import type { ClientFrameJson, ServerFrameJson } from './wire/frames_gen.js'

type MessageJson = NonNullable<NonNullable<ServerFrameJson['events']>['messages']>[number]
type SendJson = NonNullable<ClientFrameJson['send']>
type ErrorJson = NonNullable<ServerFrameJson['error']>

/** A message that another user sends in a test, to a conversation or to a user. */
export type TestMessage = Pick<SendJson, 'conv' | 'user' | 'text' | 'type' | 'edit' | 'recall'>

/** Answers a call of one API method, such as petrel.v1.AccountService/GetAccount, in JSON. */
export type TestMethod = (request: Readonly<Record<string, unknown>>, user: string) => object

interface Group {
  readonly conv: string
  readonly title: string // '': a direct conversation
  readonly members: readonly string[]
  readonly log: MessageJson[]
  readonly read: Map<string, number>
}

interface Session {
  readonly on: ConnectionEvents
  user: string // '': no hello came yet
}

const cutByTest: Failure = failure('link', 'the test has cut the connection')
const kept = 50 // the most messages of a page, and of a sync

/**
 * A server in memory, in the process of a test. Give it to clients as their transport; the token of a
 * client is the id of its user:
 *
 *     const server = new TestServer()
 *     const alice = new Client({ url: 'ws://test', token: 'alice', transport: server })
 *
 * It has groups and direct conversations, sends and their repeats, edits and recalls, history, and read
 * cursors. Everything happens in microtasks, so tests need no pauses, and fake timers may stand still.
 * Methods of the API are those that the test defines. Requests of other kinds are answered with `unsupported`.
 */
export class TestServer implements Transport {
  readonly speaks = schemes
  /** The frames that clients have sent, in the JSON mapping, in their order. */
  readonly got: ClientFrameJson[] = []
  /** Methods of the API by their names. Others are `no_method`. */
  readonly methods: Record<string, TestMethod> = {}
  readonly #groups = new Map<string, Group>()
  readonly #sessions = new Set<Session>()
  readonly #refusals: ErrorJson[] = []
  #written = 0
  #isCut = false

  connect(_: string, on: ConnectionEvents): Connection {
    const s: Session = { on, user: '' }
    queueMicrotask(() => {
      if (this.#isCut) return on.closed(cutByTest)
      this.#sessions.add(s)
      on.opened()
    })
    return {
      send: (data) => {
        const frame = JSON.parse(data as string) as ClientFrameJson
        this.got.push(frame)
        const answer = this.#answer(s, frame)
        if (answer) this.#tell(s, { ...frame.id === undefined ? {} : { id: frame.id }, ...answer })
      },
      close: () => void this.#sessions.delete(s),
    }
  }

  /** Makes a group, and returns its conversation id. */
  group(title: string, ...members: readonly string[]): string {
    const conv = `group${this.#groups.size + 1}`
    this.#groups.set(conv, { conv, title, members, log: [], read: new Map() })
    return conv
  }

  /**
   * Writes a message as a user who needs no client. It returns conversation and seq, and throws if the user may not
   * write there.
   */
  write(from: string, message: TestMessage): { readonly conv: string; readonly seq: number } {
    const stored = this.#store(from, { ...message, clientMsgId: `written-${++this.#written}` })
    if (stored.error) throw new Error(`${from} cannot write: ${stored.error.message}`)
    return { conv: stored.message.conv ?? '', seq: Number(stored.message.seq) }
  }

  /**
   * Refuses the next sends of clients with a code: one send, or `times` ones. `settled` (the default): the message
   * fails for good; false: the client sends it again.
   */
  refuse(code: Code, options: { readonly settled?: boolean; readonly times?: number } = {}): void {
    for (let n = 0; n < (options.times ?? 1); n++) this.#refusals.push({ code, message: `the test refuses it with ${code}`, settled: options.settled ?? true, retryable: options.settled === false })
  }

  /** Ends all connections, and refuses new ones until `heal` is called. */
  cut(): void {
    this.#isCut = true
    for (const s of [...this.#sessions]) {
      this.#sessions.delete(s)
      s.on.closed(cutByTest)
    }
  }

  /** Accepts connections again. Clients try again by themselves, after a second or more of their clock. */
  heal(): void {
    this.#isCut = false
  }

  #tell(s: Session, frame: ServerFrameJson): void {
    queueMicrotask(() => {
      if (this.#sessions.has(s)) s.on.frame(frame)
    })
  }

  #answer(s: Session, f: ClientFrameJson): ServerFrameJson | undefined {
    if (f.hello) {
      s.user = f.hello.token ?? ''
      return { welcome: welcome(s.user) }
    }
    if (f.sync) return { sync: { token: 'AQ==', convs: this.#of(s.user).map((g) => state(g, s.user)) } }
    if (f.send) return this.#send(s, f.send)
    if (f.history) return this.#history(s.user, f.history)
    if (f.cursor) return this.#move(s, f.cursor)
    if (f.focus) return { focus: {} }
    if (f.ping) return { pong: {} }
    if (f.pong) return undefined
    if (f.call) return this.#call(s.user, f.call)
    return refusal('unsupported', 'the test server does not support this request')
  }

  #send(s: Session, send: SendJson): ServerFrameJson {
    const refused = this.#refusals.shift()
    if (refused) return { error: refused }
    const { message, error } = this.#store(s.user, send, s)
    if (error) return { error }
    const { conv = '', seq = '', timeMs = '', counted = '' } = message
    return { ack: { ...send.user === undefined ? {} : { conv }, seq, timeMs, counted } }
  }

  /**
   * Stores a message, unless it is stored already, and pushes it to the sessions of the members, except for the
   * session that sent it.
   */
  #store(from: string, send: SendJson, by?: Session): { message: MessageJson; error?: never } | { message?: never; error: ErrorJson } {
    const g = send.user === undefined ? this.#groups.get(send.conv ?? '') : this.#direct(from, send.user)
    if (!g?.members.includes(from)) return refusal('no_conversation', 'there is no such conversation')
    const former = g.log.find((m) => m.from === from && m.clientMsgId === send.clientMsgId)
    if (former) return { message: former }
    const { conv: _, user: __, after: ___, ...body } = send
    const counted = g.log.filter((m) => !m.edit && !m.recall).length + (send.edit || send.recall ? 0 : 1)
    const m: MessageJson = { ...body, conv: g.conv, seq: String(g.log.length + 1), from, timeMs: String(Date.now()), counted: String(counted) }
    const target = Number(send.edit?.target ?? send.recall?.target ?? 0)
    const old = g.log[target - 1]
    if (old) g.log[target - 1] = rewritten(old, m)
    g.log.push(m)
    this.#push(g, { messages: [m] }, by)
    return { message: m }
  }

  #push(g: Group, events: NonNullable<ServerFrameJson['events']>, but?: Session): void {
    for (const s of this.#sessions) if (s !== but && g.members.includes(s.user)) this.#tell(s, { events })
  }

  #direct(a: string, b: string): Group {
    const members = [a, b].sort()
    const conv = `direct-${members.join('-')}`
    const g = this.#groups.get(conv) ?? { conv, title: '', members, log: [], read: new Map() }
    this.#groups.set(conv, g)
    return g
  }

  #of(user: string): readonly Group[] {
    return [...this.#groups.values()].filter((g) => g.members.includes(user))
  }

  #history(user: string, q: NonNullable<ClientFrameJson['history']>): ServerFrameJson {
    const g = this.#of(user).find((g) => g.conv === q.conv)
    if (!g) return refusal('no_conversation', 'there is no such conversation')
    const [after, before, limit] = [Number(q.after ?? 0), Number(q.before ?? g.log.length + 1), Math.min(q.limit || kept, kept)]
    const all = g.log.slice(after, before - 1)
    const messages = q.before === undefined ? all.slice(0, limit) : all.slice(-limit)
    return { history: { conv: g.conv, messages, head: String(g.log.length), firstSeq: '1', more: messages.length < all.length } }
  }

  #move(s: Session, { conv = '', read = '0' }: NonNullable<ClientFrameJson['cursor']>): ServerFrameJson {
    const { user } = s
    const g = this.#of(user).find((g) => g.conv === conv)
    if (!g) return refusal('no_conversation', 'there is no such conversation')
    g.read.set(user, Math.max(Number(read), g.read.get(user) ?? 0))
    this.#push(g, { receipts: [{ conv, user, delivered: read, read }] }, s)
    return { cursor: { conv, read } }
  }

  #call(user: string, call: NonNullable<ClientFrameJson['call']>): ServerFrameJson {
    const method = this.methods[call.method ?? '']
    if (!method) return refusal('no_method', `the test gives no method ${call.method}`)
    return { answer: { json: JSON.stringify(method(JSON.parse(call.json || '{}') as Record<string, unknown>, user)) } }
  }
}

/** Returns an entry as it is after an edit or a recall. */
function rewritten(old: MessageJson, by: MessageJson): MessageJson {
  const { text: _, data: __, type: ___, ...rest } = old
  const { target: ____, ...body } = by.edit ?? {}
  return by.edit ? { ...rest, ...body, editedBy: by.seq ?? '' } : { ...rest, recalledBy: by.seq ?? '' }
}

const refusal = (code: Code, message: string): { error: ErrorJson } => ({ error: { code, message, settled: true, retryable: false } })

const welcome = (user: string): NonNullable<ServerFrameJson['welcome']> => ({
  version: 1, user, inbox: `inbox-${user}`, historyId: 'test', heartbeatMs: 30_000, window: { sends: 64, bytes: 262_144 },
  limits: { frameBytes: 65_536, bodyBytes: 8192, historyMessages: kept, openRequests: 16 },
  capabilities: ['edit', 'cursor', 'focus', 'newest', 'call', 'rel'],
})

type StateJson = NonNullable<NonNullable<ServerFrameJson['sync']>['convs']>[number]

/** Returns the state of a conversation in a sync for a member. */
function state({ conv, title, members, log, read }: Group, user: string): StateJson {
  const head = String(log.length)
  const at = read.get(user) ?? 0
  return {
    conv, head, joined: '1', firstSeq: '1', counted: log.at(-1)?.counted ?? '0', newest: log.slice(-kept),
    ...title === '' ? { kind: 'CONV_KIND_DIRECT', peer: members.find((m) => m !== user) ?? user } : { kind: 'CONV_KIND_GROUP', title, role: 'ROLE_MEMBER' },
    delivered: String(at), read: String(at), readCounted: log[at - 1]?.counted ?? '0',
  }
}
