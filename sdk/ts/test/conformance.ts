// Plays the vectors of sdk/conformance, as its README describes them. It knows the core by its
// border only, and uses nothing of Node or of a browser, so that it runs in both.
import type * as border from '../src/core/index.js'
import type { Core, Failure, Gathered, Outgoing, Row, ServerFrame, Written } from '../src/core/index.js'

export type Border = typeof border

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type Fields = { readonly [key: string]: Json }

export interface Vector {
  readonly name: string
  readonly clauses: readonly string[]
  readonly options?: Fields
  readonly steps: readonly { readonly in: Fields; readonly out?: Fields; readonly shows?: { readonly [what: string]: Fields & Json } }[]
}

/** Plays one vector with a core, and returns the faults. */
export function play(core: Border, v: Vector): string[] {
  const s = new Script(core, v.options ?? {})
  for (const [i, step] of v.steps.entries()) {
    s.at = `step ${i + 1}`
    try {
      s.take(step)
    } catch (error) {
      s.wrong.push(`${s.at}: ${error instanceof Error ? error.stack : String(error)}`)
      break // what follows would say the same
    }
  }
  return s.wrong
}

/** The outputs of one step. */
interface Outcome {
  token: Json[]
  dials: Json[]
  drops: Json[]
  frames: Fields[]
  writes: string[]
  durable: boolean
  told: boolean
  changed: Gathered
  ended?: Failure
}

/** A write that waits for `stored`. */
type Held = { readonly turn: Written } | { readonly draft: string; readonly row: Row }

/** The welcome of a vector that says nothing else. */
const usual: Fields = {
  version: 1, user: 'alice', inbox: 'inbox', historyId: 'h1', heartbeatMs: 30000, heartbeatMisses: 2, window: { sends: 64, bytes: 262144 },
  limits: { frameBytes: 65536, bodyBytes: 8192, historyMessages: 50, openRequests: 16 },
  capabilities: ['edit', 'cursor', 'focus', 'newest', 'call', 'rel', 'signal', 'presence', 'notes', 'personal', 'mentions'],
}

const outNames = ['token', 'dials', 'drops', 'frames', 'writes', 'durable', 'changed', 'ended', 'alarmMs']
const rowNames: { readonly [kind: string]: string } = { meta: 'client', c: 'conversation', e: 'entry', o: 'outgoing', s: 'setting', p: 'position', incoming: 'incoming' }

export class Script {
  at = 'begin'
  readonly wrong: string[] = []
  private readonly store = new Map<string, unknown>()
  private readonly byHand: boolean
  private c: Core
  private held: Held | undefined
  private asked = new Map<string, string[]>() // ids of requests without an answer, by kind
  private conn = 0 // the newest one that stands or is being made
  private ended = 0 // the connection that this step ends
  private names = 0
  private readonly outgoing = new Map<string, Outgoing>() // by id, whatever became of it
  private got = nothing()

  constructor(private readonly k: Border, private readonly o: Fields) {
    this.byHand = o['store'] === 'by hand'
    this.c = this.begin(1795262400000)
    this.settle()
  }

  /** Makes a core of what the store holds. */
  private begin(now: number): Core {
    const { o } = this
    const c = this.k.newCore({
      url: text(o['url']) || 'ws://a', speaks: ['ws', 'wss', 'http', 'https', 'tcp', 'tls'], client: 'script', stored: true,
      ...(o['device'] === 'none' ? {} : { device: text(o['device']) || 'device' }),
      keep: number(o['keep']) || 500, newest: number(o['newest']) || 20, manualDelivered: o['tellsDelivered'] !== true, wholeFrames: o['wholeFrames'] === true,
    }, () => number(o['random']), () => `id${++this.names}`, now)
    this.asked = new Map()
    this.held = undefined
    this.k.open(c, Array.from(this.store, ([key, value]) => ({ key, value: structuredClone(value) })))
    for (const o of this.store.keys()) if (o.startsWith('o/')) this.note(c, o.slice(2))
    return c
  }

  private note(c: Core, id: string): void {
    const o = this.k.outgoing(c, id)
    if (o) this.outgoing.set(id, o)
  }

  /** Plays one step. */
  take(step: Vector['steps'][number]): void {
    this.got = nothing()
    this.ended = 0
    const out = step.out ?? {}
    for (const key of Object.keys(out)) if (!outNames.includes(key)) throw new Error(`no output is called ${key}`)
    this.input(step.in)
    this.settle()
    const { got } = this
    for (const what of ['token', 'dials', 'drops', 'frames'] as const) {
      const want = list(out[what])
      if (want.length !== got[what].length || mismatch(want, got[what]) !== '') this.fail(what, got[what], want)
    }
    const ended = got.ended ? failureView(got.ended) : null
    if ((out['ended'] ?? null) === null ? ended !== null : mismatch(out['ended'] ?? null, ended) !== '') this.fail('ended', ended, out['ended'] ?? null)
    for (const w of list(out['writes'])) if (!got.writes.includes(text(w))) this.fail('writes', got.writes, w)
    if ('durable' in out && out['durable'] !== got.durable) this.fail('durable', got.durable, out['durable'] ?? null)
    if ('changed' in out && mismatch(out['changed'] ?? null, this.changedView()) !== '') this.fail('changed', this.changedView(), out['changed'] ?? null)
    if ('alarmMs' in out && out['alarmMs'] !== this.c.alarm - this.c.now) this.fail('alarmMs', this.c.alarm - this.c.now, out['alarmMs'] ?? null)
    for (const [what, want] of Object.entries(step.shows ?? {})) {
      const view = this.view(what, want)
      const why = mismatch(want, view)
      if (why !== '') this.wrong.push(`${this.at}: shows ${what}: ${why}\n got ${show(view)}\nwant ${show(want)}`)
    }
  }

  /** Applies what a step brings, and returns what came out, as a vector writes it. */
  record(input: Fields): Fields {
    this.got = nothing()
    this.ended = number(input['closed'])
    this.input(input)
    this.settle()
    const { token, dials, drops, frames, writes, durable, ended } = this.got
    return { token, dials, drops, frames, writes, durable, changed: this.changedView(), ...(ended ? { ended: failureView(ended) } : {}) }
  }

  private fail(what: string, got: Json, want: Json): void {
    this.wrong.push(`${this.at}: ${what}:\n got ${show(got)}\nwant ${show(want)}`)
  }

  /** Does what a client does after each input. */
  private settle(): void {
    for (let n = 0; ; n++) {
      if (n > 1000) throw new Error('the core has something to do again and again')
      this.k.step(this.c)
      this.outputs()
      if (this.held) return
      const w = this.k.prepare(this.c)
      if (w.rows.length === 0 && !w.durable && this.k.isEmpty(w.change)) return
      this.got.durable ||= w.durable
      this.got.writes.push(...w.rows.map(rowName))
      if (this.byHand && (w.rows.length > 0 || w.durable)) {
        this.held = { turn: w }
        continue
      }
      this.stored(w)
    }
  }

  private stored(w: Written): void {
    for (const r of w.rows) this.write(r)
    const change = this.k.stored(this.c, w)
    if (this.k.isEmpty(change)) return
    this.got.told = true
    this.k.merge(this.got.changed, change)
  }

  /** A store clones what it gets, and takes nothing that cannot be cloned. */
  private write(r: Row): void {
    if (r.value === null) this.store.delete(r.key)
    else this.store.set(r.key, structuredClone(r.value))
  }

  /** Takes what the core wants done. */
  private outputs(): void {
    const out = this.k.takeOutputs(this.c)
    const { got } = this
    if (out.token) got.token.push(out.token.refused)
    for (const d of out.dials) {
      this.conn = d.conn
      got.dials.push(d.addr)
    }
    got.drops.push(...out.drops.filter((conn) => conn !== this.ended)) // by itself
    for (const f of out.frames) {
      const { id, ...body } = JSON.parse(text(f.data as string)) as { id?: string } & Fields
      const kind = Object.keys(body)[0] ?? ''
      if (kind !== 'pong') this.asked.set(kind, [...this.asked.get(kind) ?? [], id ?? ''])
      got.frames.push({ ...body, ...(kind === 'pong' && id !== undefined ? { id } : {}), conn: f.conn })
    }
    for (const o of out.settled) this.outgoing.set(o.id, o)
    if (out.ended) got.ended = out.ended
  }

  /** Applies what a step brings. */
  private input(step: Fields): void {
    for (const [kind, what] of Object.entries(step)) {
      if (!['answers', 'conn', 'store', 'error'].includes(kind)) this.one(kind, what, step)
    }
  }

  private one(kind: string, what: Json, step: Fields): void {
    const { k, c } = this
    const conn = 'conn' in step ? number(step['conn']) : this.conn
    const error = step['error'] === undefined ? undefined : failureOf(k, step['error'])
    switch (kind) {
      case 'start':
        return k.start(c)
      case 'stop':
        this.asked = new Map()
        return k.stop(c)
      case 'token':
        return k.tokenCame(c, error ?? text(what))
      case 'opened':
        return k.opened(c, number(what))
      case 'closed':
        this.asked = new Map()
        this.ended = number(what)
        return k.closed(c, this.ended, error ?? k.failure('link', 'cut'))
      case 'frame':
        return k.frame(c, conn, this.serverFrame(fields(what), step['answers']))
      case 'heard':
        return k.heard(c, conn)
      case 'moved':
        return k.moved(c, conn, fields(what)['all'] === true ? (c.live?.nextId ?? 0) : 0)
      case 'flood':
        return k.frame(c, conn, flood(k, fields(what)))
      case 'wait':
        return this.wait(number(what))
      case 'live':
        k.start(c)
        return this.goLive(fields(what))
      case 'reconnect':
        this.asked = new Map()
        k.closed(c, conn, k.failure('link', 'cut'))
        return this.goLive(fields(what))
      case 'stored':
        return this.storeAnswers(error)
      case 'restart':
        this.c = this.begin(c.now)
        return undefined
      default:
        return this.call(kind, what, step)
    }
  }

  private storeAnswers(error: Failure | undefined): void {
    const { held } = this
    this.held = undefined
    if (!held) throw new Error('no write waits')
    if (error) this.k.storeFailed(this.c, error.message)
    else if ('turn' in held) this.stored(held.turn)
    else {
      this.write(held.row)
      this.k.kept(this.c, held.draft)
    }
  }

  private serverFrame(frame: Fields, answers: Json | undefined): ServerFrame {
    if (answers === undefined) return this.k.decode(frame)
    const id = this.asked.get(text(answers))?.shift()
    if (id === undefined) throw new Error(`no ${text(answers)} waits for an answer`)
    return this.k.decode({ ...frame, id })
  }

  /** Lets time go on, from alarm to alarm. */
  private wait(ms: number): void {
    const to = this.c.now + ms
    for (;;) {
      this.settle()
      const at = this.c.alarm
      if (at > to || this.got.ended) break
      if (at <= this.c.now) throw new Error('the core wants to hear of the clock at once, again and again')
      this.c.now = at
    }
    this.c.now = to
  }

  /**
   * Goes from where a token is asked for to the answer of the first sync. The other
   * requests are left to the step.
   */
  private goLive(input: Fields): void {
    for (let n = 0; this.got.token.length === 0; n++) {
      this.settle()
      if (this.got.token.length > 0) break
      if (this.c.alarm === Infinity || n > 3) throw new Error('the client does not connect')
      this.c.now = this.c.alarm
    }
    this.k.tokenCame(this.c, 'token')
    this.settle()
    this.k.opened(this.c, this.conn)
    this.settle()
    this.k.frame(this.c, this.conn, this.serverFrame({ welcome: { ...usual, ...fields(input['welcome'] ?? {}) } }, 'hello'))
    this.settle()
    this.k.frame(this.c, this.conn, this.serverFrame({ sync: { token: 'AQ==', ...fields(input['sync'] ?? {}) } }, 'sync'))
    this.settle()
    const first = this.got.frames.find((f) => 'sync' in f)
    this.got.frames = this.got.frames.filter((f) => f !== first && !('hello' in f))
    this.got.token = []
    this.got.dials = []
    this.got.drops = []
  }

  /** A call of the application. */
  private call(kind: string, what: Json, step: Fields): void {
    const { k, c } = this
    const q = typeof what === 'object' && what !== null && !Array.isArray(what) ? what as Fields : {}
    const conv = text(q['conv'])
    switch (kind) {
      case 'send':
        return this.send(q, step)
      case 'discard':
        return k.discard(c, text(what))
      case 'markRead':
        return k.markRead(c, conv, number(q['seq']))
      case 'markDelivered':
        return k.markDelivered(c, conv, number(q['seq']))
      case 'focus':
        return k.setFocus(c, what === null ? undefined : list(what).map(text))
      case 'watch':
        return k.setWatch(c, list(what).map(text), '')
      case 'typing':
        return k.sayTyping(c, text(what))
      case 'wakeUp':
        return k.wakeUp(c)
      case 'quote':
        k.quote(c, conv, number(q['seq']))
        return undefined
      case 'older':
        return this.older(conv, number(q['limit']))
      case 'signal':
        return this.refused(k.call(c, 'signal', { signal: { conv, kind: text(q['kind']) } }, () => undefined), step)
      default:
        throw new Error(`no input is called ${kind}`)
    }
  }

  /** Compares the error of a call with what the step says. */
  private refused(got: Failure | undefined, step: Fields): void {
    if ((got?.code ?? '') !== text(step['error'])) this.fail('the error of the call', got?.code ?? '', step['error'] ?? '')
  }

  private send(q: Fields, step: Fields): void {
    const edit = q['edit'] === undefined ? undefined : fields(q['edit'])
    const forward = q['forward'] === undefined ? undefined : fields(q['forward'])
    const given = ['conv', 'user', 'id', 'type'].filter((key) => key in q).map((key) => [key, text(q[key])])
    const body = q['hex'] === undefined ? text(q['text']).repeat(Math.max(1, number(q['repeat']))) : fromHex(text(q['hex']))
    const d = this.k.draft(this.c, {
      ...Object.fromEntries(given) as { conv?: string }, text: body, replyTo: number(q['replyTo']), thread: number(q['thread']),
      ...(edit ? { edit: { target: number(edit['target']), text: text(edit['text']) } } : {}), ...('recall' in q ? { recall: { target: number(q['recall']) } } : {}),
      ...(forward ? { forward: { conv: text(forward['conv']), seq: number(forward['seq']) } } : {}),
    })
    this.refused(d.refused, step)
    if (d.refused || !d.row) return
    const { id } = d.outgoing
    if (step['store'] !== undefined) { // it fails
      this.k.lost(this.c, id)
      return
    }
    this.outgoing.set(id, d.outgoing)
    this.got.writes.push(rowName(d.row))
    this.got.durable = true
    if (this.byHand) {
      this.held = { draft: id, row: d.row }
      return
    }
    this.write(d.row)
    this.k.kept(this.c, id)
  }

  /** Asks for older entries as a client does, and applies the answer when it comes. */
  private older(conv: string, limit: number): void {
    const { k, c } = this
    const before = k.olderThan(c, conv)
    if (before === 0) return
    const why = k.call(c, '', { history: { conv, before, limit } }, (f) => {
      if (f?.kind === 'history') k.takeOlder(c, conv, before, f.history)
      const damaged = f?.kind === 'error' ? k.fromWire(f.error).damaged : undefined
      if (damaged) k.takeOlder(c, conv, before, damaged)
    })
    if (why) throw new Error(why.message)
  }

  private changedView(): Json {
    if (!this.got.told) return null
    const { conversations, ...flags } = this.got.changed
    return { conversations: [...conversations].sort(), ...flags }
  }

  /** A snapshot as a vector writes it. want says of what. */
  view(what: string, want: Fields & Json): Json {
    const { k, c } = this
    const each = (view: (key: string) => Json): Json => Object.fromEntries(Object.keys(want).map((key) => [key, view(key)]))
    switch (what) {
      case 'status': {
        const { error, retryMs, ...s } = k.status(c)
        return { ...s, error: error ? failureView(error) : null, retryInMs: retryMs === 0 ? null : retryMs - c.now }
      }
      case 'conversations':
        return each((id) => this.conversation(id))
      case 'messages':
        return each((id) => k.messages(c, id).map((m) => this.message(m)))
      case 'pending':
        return each((id) => k.pending(c, id).map(outgoingView))
      case 'outgoing':
        return each((id) => {
          const o = k.outgoing(c, id) ?? this.outgoing.get(id)
          return o ? outgoingView(o) : null
        })
      case 'unread':
        return { ...k.unreadTotal(c) }
      case 'signals':
        return k.signals(c).map(({ conv, from, kind, id }) => ({ conv, from, kind, id }))
      case 'presence':
        return each((user) => {
          const p = k.presence(c, user)
          return p ? { ...p } : null
        })
      case 'settings':
        return each((name) => {
          const [conv = '', user = '', key = ''] = name.split('/')
          return k.setting(c, conv, user, key)
        })
      case 'quotes':
        return each((name) => {
          const [conv = '', seq = ''] = name.split('/')
          const q = k.quote(c, conv, Number(seq))
          if (typeof q === 'string') return q === 'asked' ? 'unknown' : q
          return { from: q.from, text: q.text ?? null, recalledBy: q.recalledBy, editedBy: q.editedBy }
        })
      case 'count':
        return each((name) => this.count(name))
      default:
        throw new Error(`no snapshot is called ${what}`)
    }
  }

  /** How many there are of something, 'messages g1'. */
  private count(name: string): number {
    const { k, c } = this
    const [what = '', conv = ''] = name.split(' ')
    if (what === 'signals') return k.signals(c).length
    if (what === 'typing') return k.conversation(c, conv)?.typing.length ?? 0
    return k.messages(c, conv).filter((m) => what === 'messages' || m.reactions.length > 0).length
  }

  private conversation(id: string): Json {
    const v = this.k.conversation(this.c, id)
    if (!v) return null
    const receipts = Object.fromEntries(Array.from(v.receipts, ([user, { delivered, read }]) => [user, { delivered, read }]))
    const { title, peer, left, head, have, unread, read, known, typing, mentions } = v
    return { title, peer, left, head, have, unread, read, known, typing, mentions, damaged: v.damaged.map(({ from, to }) => ({ from, to })), receipts }
  }

  private message(m: border.Message): Json {
    const { seq, from, type, counted, threadN, timeMs, editedBy, recalledBy, pinned, delivered, read } = m
    return {
      seq, from, id: m.clientMsgId, type, counted, threadN, replyTo: m.rel?.replyTo ?? 0, timeMs, editedBy, recalledBy, pinned, delivered, read,
      newerVersion: this.k.needsNewerVersion(m), text: m.text ?? null, reactions: m.reactions.map(({ emoji, count, mine }) => ({ emoji, count, mine })),
    }
  }
}

function nothing(): Outcome {
  return {
    token: [], dials: [], drops: [], frames: [], writes: [], durable: false, told: false,
    changed: { conversations: new Set(), list: false, status: false, account: false, unread: false, signals: false, presence: false, pending: false },
  }
}

/** A row as vectors name it: 'entry g1 3', or '-entry g1 3' when it is removed. */
function rowName(r: Row): string {
  const [kind = '', ...rest] = r.key.split('/')
  const what = kind === 'e' ? `${rest[0]} ${parseInt(rest[1] ?? '', 16)}` : rest.join('/')
  return `${r.value === null ? '-' : ''}${rowNames[kind]} ${what}`.trim()
}

/** An error as a vector writes it: a text, or an Error of the protocol. */
function failureOf(k: Border, v: Json): Failure {
  return typeof v === 'string' ? k.failure('link', v) : k.fromWire(k.wireError(v))
}

function failureView(f: Failure): Json {
  if (f.kind === 'link') return { text: f.message }
  if (f.kind !== 'refused') return { code: f.kind }
  const { code, message, settled, retryable, retryAfterMs, head } = f
  return { code, message, settled, retryable, retryAfterMs, head }
}

function outgoingView(o: Outgoing): Json {
  const { id, state, conv, seq, after, error } = o
  return {
    id, state, conv, seq, text: o.draft.text ?? null, after: after === undefined ? null : String(after), error: error && error.kind !== 'unknowable' ? failureView(error) : null,
  }
}

/** Many events of one kind, in one frame. */
function flood(k: Border, q: Fields): ServerFrame {
  const conv = text(q['conv'])
  const ids = Array.from({ length: number(q['to']) - number(q['from']) + 1 }, (_, i) => String(number(q['from']) + i))
  switch (q['kind']) {
    case 'entries':
      return k.decode({ events: { messages: ids.map((id) => ({ conv, seq: id, clientMsgId: id, text: id })) } })
    case 'notes':
      return k.decode({ events: { notes: ids.map((seq) => ({ conv, seq, version: '1', reactions: [{ emoji: '+', count: '1' }] })) } })
    case 'signals':
      return k.decode({ events: { signals: ids.map((id) => ({ conv, from: `user${id}`, kind: 'call', id })) } })
    default:
      return k.decode({ events: { signals: ids.map((id) => ({ conv, from: `user${id}`, kind: 'typing', head: '1048576', id })) } })
  }
}

/** A text of bytes. One that is not UTF-8 is half a surrogate, since a text here can hold no byte. */
function fromHex(hex: string): string {
  return (hex.match(/../g) ?? []).map((pair) => {
    const byte = parseInt(pair, 16)
    return String.fromCharCode(byte < 0x80 ? byte : 0xdc00 + byte)
  }).join('')
}

/**
 * Returns where got differs from want; '': nowhere. Of an object only the keys that want has are
 * compared; null stands for a key that is not there, or has its default.
 */
function mismatch(want: Json, got: Json | undefined): string {
  const different = `got ${show(got ?? null)}, want ${show(want)}`
  if (Array.isArray(want)) {
    if (got !== null && got !== undefined && !Array.isArray(got) || list(got).length !== want.length) return different
    return want.map((w: Json, i) => mismatch(w, list(got)[i])).find((m) => m !== '') ?? ''
  }
  if (isObject(want)) {
    if (!isObject(got)) return different
    for (const [key, w] of Object.entries(want)) {
      const m = mismatch(w, got[key])
      if (m !== '') return `${key}: ${m}`
    }
    return ''
  }
  const value = typeof want === 'string' && isObject(got) ? got['text'] : got // a message, by its text
  return isDefault(want) && isDefault(value) || want === value ? '' : different
}

function isObject(v: Json | undefined): v is Fields {
  return typeof v === 'object' && v !== null && !Array.isArray(v)
}

function isDefault(v: Json | undefined): boolean {
  return v === undefined || v === null || v === '' || v === 0 || v === false || v === '0' || Array.isArray(v) && v.length === 0 || isObject(v) && Object.keys(v).length === 0
}

function show(v: Json): string {
  return JSON.stringify(v)
}

function text(v: Json | undefined): string {
  return typeof v === 'string' ? v : ''
}

function number(v: Json | undefined): number {
  return typeof v === 'number' ? v : 0
}

function list(v: Json | undefined): readonly Json[] {
  return Array.isArray(v) ? v : []
}

function fields(v: Json): Fields {
  return isObject(v) ? v : {}
}
