// Makes vectors by a random walk: a core meets a small model of a server, over links that
// break, and the walk writes down the outputs. Another SDK plays it, and has to say the same.
import * as core from '../src/core/index.js'
import { type Fields, type Json, Script, type Vector } from './conformance.js'

/** A random number from 0 to below n, always the same ones for a seed. */
function randomOf(seed: number): (n: number) => number {
  let a = seed
  return (n) => { // mulberry32
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * n)
  }
}

interface Conv {
  readonly id: string
  readonly peer: string
  readonly log: Record<string, Json>[] // log[i] has the seq i + 1
  title: string
  read: number
  pushed: number
}

const users = ['bob', 'carol', 'dave']
const showEvery = 30 // steps

class Walk {
  readonly steps: { readonly in: Fields; readonly out: Fields; readonly shows?: { [what: string]: Fields & Json } }[] = []
  private readonly script: Script
  private readonly convs: Conv[] = ['g1', 'g2', 'd1'].map((id) => ({ id, peer: id === 'd1' ? 'bob' : '', log: [], title: '', read: 0, pushed: 0 }))
  private readonly asked = new Map<string, Fields[]>() // requests without an answer, by kind
  private readonly random: (n: number) => number
  private token = 0
  private ids = 0
  private notes = 0
  private settings = 10
  private history = 1

  constructor(seed: number, readonly options: Fields) {
    this.random = randomOf(seed)
    this.script = new Script(core, options)
  }

  go(steps: number): void {
    for (const v of this.convs) for (let i = this.random(10); i > 0; i--) this.append(v)
    this.step({ live: { sync: this.page() } })
    while (this.steps.length < steps) this.step(this.next())
  }

  private one<T>(of: readonly T[]): T {
    return of[this.random(of.length)] as T
  }

  private step(input: Fields): void {
    if ('reconnect' in input || 'closed' in input || 'restart' in input) this.broken()
    if (typeof input['answers'] === 'string') this.asked.get(input['answers'])?.shift()
    const out = this.script.record(input)
    for (const f of out['frames'] as readonly Fields[]) {
      const [kind = ''] = Object.keys(f)
      if (kind !== 'pong') this.asked.set(kind, [...this.asked.get(kind) ?? [], f[kind] as Fields])
    }
    this.steps.push({ in: input, out, ...(this.steps.length % showEvery === showEvery - 1 ? { shows: this.shows() } : {}) })
    if ('restart' in input) this.step({ live: { sync: this.page(), welcome: { historyId: `h${this.history}` } } })
  }

  private shows(): { [what: string]: Fields & Json } {
    const ids = Object.fromEntries(this.convs.map((v) => [v.id, null]))
    const keys = { conversations: ids, messages: ids, pending: ids, status: {}, unread: {}, signals: {}, settings: { 'g1//pinned': null, '//theme': null } }
    return Object.fromEntries(Object.entries(keys).map(([what, of]) => [what, this.script.view(what, of) as Fields & Json]))
  }

  /** The connection is gone: its sends may have arrived. */
  private broken(): void {
    for (const s of this.asked.get('send') ?? []) if (this.random(2) === 0) this.store(s)
    this.asked.clear()
    for (const v of this.convs) v.pushed = v.log.length
  }

  private append(v: Conv, from = this.one(users), more: Fields = {}): Record<string, Json> {
    const seq = v.log.length + 1
    const counted = Number(v.log.at(-1)?.['counted'] ?? 0)
    const m: Record<string, Json> = { conv: v.id, seq: String(seq), from, clientMsgId: `s${++this.ids}`, timeMs: String(1795262400000 + this.ids), counted: String(counted + 1), text: `text ${this.ids}` }
    const what = this.random(12)
    const target = v.log[this.random(Math.max(1, v.log.length))]
    if (Object.keys(more).length > 0) {
      if (more['text'] === undefined) delete m['text']
      Object.assign(m, more)
      if (more['edit'] !== undefined || more['recall'] !== undefined) m['counted'] = String(counted)
    } else if (what === 0 && target?.['text'] !== undefined) {
      delete m['text']
      Object.assign(m, { from: target['from'], counted: String(counted), edit: { target: target['seq'] ?? null, text: `edit ${this.ids}` } })
    } else if (what === 1 && target?.['text'] !== undefined) {
      delete m['text']
      Object.assign(m, { from: target['from'], counted: String(counted), recall: { target: target['seq'] ?? null } })
    } else if (what === 2 && v.peer === '') {
      delete m['text']
      v.title = `title ${this.ids}`
      Object.assign(m, { counted: String(counted), group: { title: v.title } })
    } else if (what === 3) m['rel'] = { mentions: ['alice'] }
    else if (what === 4 && target) m['rel'] = { replyTo: target['seq'] ?? null }
    else if (what === 5 && target) Object.assign(m, { counted: String(counted), rel: { thread: target['seq'] ?? null }, threadN: '1' })
    const pushed = { ...m } // as it was when it was new
    v.log.push(m)
    this.rewrite(v, m)
    return pushed
  }

  private rewrite(v: Conv, by: Fields): void {
    const edit = by['edit'] as Fields | undefined
    const recall = by['recall'] as Fields | undefined
    const target = v.log[Number(edit?.['target'] ?? recall?.['target'] ?? 0) - 1]
    if (!target || target === by || target['recalledBy'] !== undefined) return
    if (edit && target['text'] !== undefined) Object.assign(target, { text: edit['text'] ?? '', editedBy: by['seq'] ?? null })
    if (recall) {
      delete target['text']
      delete target['rel']
      target['recalledBy'] = by['seq'] ?? null
    }
  }

  /** Stores a message of alice, once. */
  private store(s: Fields): { readonly v: Conv; readonly m: Fields } | undefined {
    const v = this.convs.find((x) => x.id === s['conv'] || x.peer !== '' && x.peer === s['user'])
    if (!v) return undefined
    const old = v.log.find((m) => m['from'] === 'alice' && m['clientMsgId'] === s['clientMsgId'])
    const { text, edit, recall, rel } = s
    const body = { clientMsgId: s['clientMsgId'] ?? '', ...(text === undefined ? {} : { text }), ...(edit === undefined ? {} : { edit }), ...(recall === undefined ? {} : { recall }), ...(rel === undefined ? {} : { rel }) }
    return { v, m: old ?? this.append(v, 'alice', body) }
  }

  private page(): Fields {
    const newest = Number(this.options['newest'] ?? 20)
    return { token: btoa(String(++this.token)), convs: this.convs.map((v) => {
      const mentions = v.log.filter((m) => Number(m['seq']) > v.read && m['recalledBy'] === undefined && ((m['rel'] as Fields | undefined)?.['mentions'] as readonly string[] | undefined)?.includes('alice')).map((m) => m['seq'] ?? '')
      return {
        conv: v.id, kind: v.peer === '' ? 'CONV_KIND_GROUP' : 'CONV_KIND_DIRECT', title: v.title, peer: v.peer, head: String(v.log.length), counted: v.log.at(-1)?.['counted'] ?? '0', firstSeq: '1', joined: '1',
        read: String(v.read), readCounted: v.log[v.read - 1]?.['counted'] ?? '0', delivered: String(v.read), newest: v.log.slice(-newest).map((m) => ({ ...m })), mentions,
      }
    }) }
  }

  /** Draws the next step. */
  private next(): Fields {
    const kinds = [...this.asked].filter(([, all]) => all.length > 0).map(([kind]) => kind)
    if (kinds.length > 0 && this.random(3) > 0) return this.answer(this.one(kinds))
    const v = this.one(this.convs)
    switch (this.random(26)) {
      case 0: case 1: case 2: case 3: return { frame: { events: { messages: [this.append(v), ...(this.random(2) === 0 ? [this.append(v)] : [])] } } }
      case 4: {
        this.append(v) // it is lost
        return { frame: { events: { messages: [this.append(v)] } } }
      }
      case 5: return { frame: { events: { messages: v.log.slice(-2).map((m) => ({ ...m })) } } }
      case 6: {
        this.append(v)
        return { frame: { events: { hints: [{ conv: v.id, head: String(v.log.length), counted: v.log.at(-1)?.['counted'] ?? '0', ...(this.random(3) === 0 ? { mentionSeq: String(v.log.length) } : {}) }] } } }
      }
      case 7: case 8: case 9: case 10: return this.draft(v)
      case 11: case 12: return { wait: this.one([1, 200, 1000, 2500]) }
      case 13: return { markRead: { conv: v.id, seq: Math.max(0, v.log.length - this.random(3)) } }
      case 14: return this.random(3) === 0 ? { focus: null } : { focus: [v.id] }
      case 15: return { frame: { lagged: {} } }
      case 16: return this.reconnect()
      case 17: return this.random(3) === 0 ? { restart: {} } : { frame: { ping: {} } }
      case 18: return { quote: { conv: v.id, seq: 1 + this.random(v.log.length + 1) } }
      case 19: return { older: { conv: v.id, limit: this.one([0, 5]) } }
      case 20: return { frame: { events: { receipts: [{ conv: v.id, user: this.one([...users, 'alice']), read: String(this.random(v.log.length + 1)), delivered: String(v.log.length) }] } } }
      case 21: return { frame: { events: { notes: [{ conv: v.id, seq: String(1 + this.random(v.log.length + 1)), version: String(++this.notes), forAll: this.random(2) === 0, reactions: [{ emoji: '+', count: '2', mine: this.random(2) === 0 }] }] } } }
      case 22: return { frame: { events: { signals: [{ conv: v.id, from: this.one(users), kind: this.one(['typing', 'call']), head: String(v.log.length), id: String(++this.ids), timeMs: String(this.ids) }] } } }
      case 23: return { frame: { events: { messages: [{ conv: 'inbox', seq: String(++this.settings), inbox: { settings: this.random(2) === 0 ? { conv: 'g1', values: { pinned: this.one(['', '1', '2']) } } : { values: { theme: this.one(['', 'dark']) } } } }] } } }
      case 24: {
        const shown = (this.script.view('pending', { [v.id]: null }) as { readonly [id: string]: readonly Fields[] })[v.id] ?? []
        return shown.length === 0 ? { heard: {} } : { discard: this.one(shown)['id'] ?? '' }
      }
      default: return this.random(2) === 0 ? { typing: v.id } : { heard: {} }
    }
  }

  /** Sometimes to a server that was put back to an earlier state, with another history id or, by mistake, without. */
  private reconnect(): Fields {
    const back = this.random(6)
    if (back < 2) {
      this.broken()
      for (const v of this.convs) v.log.length = Math.max(0, v.log.length - this.random(4))
      for (const v of this.convs) v.read = Math.min(v.read, v.log.length)
    }
    if (back === 0) this.history++
    return { reconnect: { sync: this.page(), welcome: { historyId: `h${this.history}` } } }
  }

  private draft(v: Conv): Fields {
    const id = `m${++this.ids}`
    const target = 1 + this.random(Math.max(1, v.log.length))
    const to: Fields = v.peer !== '' && this.random(2) === 0 ? { user: v.peer } : { conv: v.id }
    const body: Fields = this.one<Fields>([{ text: `mine ${id}` }, { text: `mine ${id}` }, { text: `mine ${id}`, replyTo: target }, { recall: target }, { edit: { target, text: `mine ${id}` } }])
    return { send: { ...to, ...body, ...(this.random(4) === 0 ? { id } : {}) } }
  }

  /** The answer of the server to the oldest request of a kind. */
  private answer(kind: string): Fields {
    const q = this.asked.get(kind)?.[0] ?? {}
    const error = (e: Fields): Fields => ({ frame: { error: e }, answers: kind })
    const luck = this.random(12)
    if (luck === 0) return error({ code: 'rate_limited', retryable: true, retryAfterMs: this.one([0, 300]) })
    if (kind === 'send') {
      if (luck === 1) return error({ code: 'not_member', settled: true })
      if (luck === 2) return error({ code: 'behind', head: String(this.convs.find((v) => v.id === q['conv'] || v.peer === q['user'])?.log.length ?? 0) })
      if (luck === 3) return error({ code: 'internal' })
      const stored = this.store(q)
      if (!stored) return error({ code: 'no_conversation', settled: true })
      const { v, m } = stored
      return { frame: { ack: { ...(q['user'] === undefined ? {} : { conv: v.id }), seq: m['seq'] ?? null, timeMs: m['timeMs'] ?? null, ...(q['rel'] === undefined ? {} : { counted: m['counted'] ?? null }) } }, answers: kind }
    }
    if (kind === 'history') {
      const v = this.convs.find((x) => x.id === q['conv'])
      if (!v || luck === 1) return error({ code: 'store_stalled', retryable: true, retryAfterMs: 500 })
      const [after, before] = [Number(q['after'] ?? 0), Number(q['before'] ?? 0)]
      if (luck === 2 && before === 0 && v.log.length > after + 2) return error({ code: 'damaged', retryable: true, damagedFrom: String(after + 1), damagedTo: String(after + 2) })
      const limit = Math.min(Number(q['limit'] ?? 0) || 50, this.one([3, 50]))
      const range = v.log.filter((m) => Number(m['seq']) > after && (before === 0 || Number(m['seq']) < before))
      const messages = before === 0 ? range.slice(0, limit) : range.slice(-limit)
      return { frame: { history: { conv: v.id, messages: messages.map((m) => ({ ...m })), head: String(v.log.length), firstSeq: '1', more: messages.length < range.length } }, answers: kind }
    }
    if (kind === 'sync') return { frame: { sync: this.page() }, answers: kind }
    if (kind === 'cursor') {
      const v = this.convs.find((x) => x.id === q['conv'])
      if (v) v.read = Math.max(v.read, Number(q['read'] ?? 0))
      return { frame: { cursor: { conv: q['conv'] ?? '', read: String(v?.read ?? 0) } }, answers: kind }
    }
    return { frame: kind === 'ping' ? { pong: {} } : { [kind]: {} }, answers: kind }
  }
}

/** A value as a vector has it: without defaults. */
function short(v: Json): Json {
  if (Array.isArray(v)) return v.map((one: Json) => short(one))
  if (typeof v !== 'object' || v === null) return v
  const isDefault = (one: Json): boolean => one === null || one === '' || one === 0 || one === false || Array.isArray(one) && one.length === 0
  return Object.fromEntries(Object.entries(v).map(([key, one]) => [key, short(one)] as const).filter(([, one]) => !isDefault(one)))
}

/** A vector of some steps, always the same for a seed. */
export function walk(seed: number, steps: number): Vector {
  const options: Fields = { keep: [500, 12][seed % 2] ?? 0, newest: [5, 2][(seed >> 1) % 2] ?? 0, tellsDelivered: seed % 3 === 0 }
  const w = new Walk(seed, options)
  w.go(steps)
  return {
    name: `a random walk, ${seed}`, clauses: ['S-1.1'], options,
    steps: w.steps.map(({ in: input, out, shows }) => ({
      in: input, out: { changed: null, ...short(out) as Fields },
      ...(shows ? { shows: Object.fromEntries(Object.entries(shows).map(([what, of]) => [what, Array.isArray(of) ? short(of) as never : Object.fromEntries(Object.entries(of).map(([key, one]) => [key, short(one)]))])) } : {}),
    })),
  }
}

/** The file of sdk/conformance with the first walks. */
export function walks(count: number, steps: number): string {
  const of = (v: Vector): string => `{"name": ${JSON.stringify(v.name)}, "clauses": ${JSON.stringify(v.clauses)}, "options": ${JSON.stringify(v.options)}, "steps": [\n${v.steps.map((s) => `  ${JSON.stringify(s)}`).join(',\n')}\n]}`
  return `[\n${Array.from({ length: count }, (_, i) => of(walk(i + 1, steps))).join(',\n')}\n]\n`
}
