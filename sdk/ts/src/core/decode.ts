// Decodes frames of the server from the JSON of the wire. Each value is checked before its use; one that does
// not fit the schema throws an Error. Unknown fields are ignored. Spec: P-1.4, P-2.7.
import type * as json from '../wire/frames_gen.js'
import { fromBase64 } from './base64.js'
import type * as f from './frames.js'

/**
 * Reads a value of unknown type, and throws an Error if it does not fit. undefined as the argument: the field
 * is absent. undefined as the result: leave the field out.
 */
type Reader<T> = (v: unknown) => T

function wrong(v: unknown, what: string): never {
  throw new Error(`the server sent ${JSON.stringify(v)?.slice(0, 40)}, not ${what}`)
}

/** Makes a reader with a default for absent values. */
function or<T>(missing: T, read: Reader<T>): Reader<T> {
  return (v) => (v === undefined || v === null ? missing : read(v))
}

/** Makes a reader of an optional value. */
function maybe<T>(read: Reader<T>): Reader<T | undefined> {
  return or<T | undefined>(undefined, read)
}

const text = or('', (v) => (typeof v === 'string' ? v : wrong(v, 'a text')))
const flag = or(false, (v) => (typeof v === 'boolean' ? v : wrong(v, 'true or false')))
const bytes: Reader<Uint8Array> = (v) => fromBase64(text(v))

/** Reads a flag: true, or undefined if it is not set. */
function mark(v: unknown): true | undefined {
  return flag(v) || undefined
}

/** Reads a 64-bit number of the wire, from a text or a number. A number that is not a safe integer is refused. */
const wide = or(0, (v) => {
  const n = typeof v === 'string' && v !== '' ? Number(v) : v
  return typeof n === 'number' && Number.isSafeInteger(n) && n >= 0 ? n : wrong(v, 'a number of at most 53 bits')
})

function list<T>(each: Reader<T>): Reader<readonly T[]> {
  return or<readonly T[]>([], (v) => (Array.isArray(v) ? v.map((one) => each(one)) : wrong(v, 'a list')))
}

const texts = list(text)
const wides = list(wide)

/** Reads an object, without a look at its fields. */
function object(v: unknown): Readonly<Record<string, unknown>> {
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? v as Readonly<Record<string, unknown>> : wrong(v, 'a message')
}

/**
 * Makes a reader of messages from one reader for each field. A field has the name that it has on the wire; J,
 * the message of the schema, makes the compiler check the names.
 */
function message<T extends object, J>(readers: { readonly [K in keyof T]-?: K extends keyof J ? Reader<T[K]> : never }): Reader<T> {
  const fields = Object.entries(readers) as [string, Reader<unknown>][]
  return (v) => {
    const from = object(v)
    const to: Record<string, unknown> = {}
    for (const [name, read] of fields) {
      const value = read(from[name])
      if (value !== undefined) to[name] = value
    }
    return to as T
  }
}

/**
 * Makes a reader of an enum. A value is the end of its wire name in small letters: 'ROLE_OWNER' becomes
 * 'owner'. Unknown ones become ''.
 */
function enumeration<T extends string>(prefix: string, names: readonly T[]): Reader<T | ''> {
  return (v) => names.find((name) => text(v) === prefix + name.toUpperCase()) ?? ''
}

const kind = enumeration('CONV_KIND_', ['direct', 'group', 'channel', 'chatroom', 'inbox'])
const role = enumeration('ROLE_', ['member', 'admin', 'owner'])

const forwarded = message<f.Forwarded, json.ForwardedJson>({ from: text, timeMs: wide })
const relations = message<f.Relations, json.RelationsJson>({
  replyTo: wide, thread: wide, alsoMain: mark, mentions: texts, mentionAll: mark, forwardOf: maybe(message<f.Ref, json.RefJson>({ conv: text, seq: wide })),
  forwarded: maybe(forwarded), silent: mark,
})
const members = list(message<f.MemberRef, json.MemberRefJson>({ user: text, role }))
const settings = message<f.InboxSettings, json.InboxSettingsJson>({ conv: text, user: text, values: (v) => new Map(Object.entries(object(v ?? {})).map(([name, value]) => [name, text(value)])) })

function inbox(v: unknown): f.InboxEntry {
  const { joined, left, role: changed, settings: set } = object(v)
  if (joined || left || changed) return { kind: 'list' }
  return set ? { kind: 'settings', settings: settings(set) } : { kind: 'other' }
}

const entry = message<f.Entry, json.MessageJson>({
  conv: text, seq: wide, from: text, clientMsgId: text, timeMs: wide, counted: wide, type: text, editedBy: wide, recalledBy: wide, threadN: wide,
  text: maybe(text), data: maybe(bytes), rel: maybe(relations),
  edit: maybe(message<f.Edit, json.EditJson>({ target: wide, type: text, text: maybe(text), data: maybe(bytes), rel: maybe(relations) })),
  recall: maybe(message<f.Recall, json.RecallJson>({ target: wide })),
  members: maybe(message<f.MemberChange, json.MemberChangeJson>({ added: members, removed: texts, left: texts, roles: members, dissolved: mark })),
  group: maybe(message<f.GroupChange, json.GroupChangeJson>({ title: text })),
  inbox: maybe(inbox), lost: mark, withheld: mark,
})
const quotes = list(message<f.Quote, json.QuoteJson>({
  seq: wide, from: text, timeMs: wide, type: text, text: maybe(text), data: maybe(bytes), cut: mark, editedBy: wide, recalledBy: wide, lost: mark, forwarded: maybe(forwarded),
}))
const notes = list(message<f.Note, json.NoteJson>({
  conv: text, seq: wide, version: wide, reactions: list(message<f.Reaction, json.ReactionCountJson>({ emoji: text, count: wide, mine: flag })), pinned: mark, forAll: mark,
}))
const hints = list(message<f.Hint, json.HintJson>({ conv: text, head: wide, counted: wide, mentionSeq: wide }))
const receipt = message<f.Receipt, json.ReceiptJson>({ conv: text, user: text, delivered: wide, read: wide })
const entries = list(entry)

const state = message<f.ConvState, json.ConvStateJson>({
  conv: text, kind, title: text, peer: text, head: wide, counted: wide, firstSeq: wide, delivered: wide, read: wide, role, left: flag, newest: entries, joined: wide,
  readCounted: wide, peerReceipt: maybe(receipt), damaged: flag, refs: quotes, notes, mentions: wides, mentionsMissing: flag, peerProfile: text,
})

/** Reads an error, from a frame or from an answer over HTTP. */
export const wireError = message<f.WireError, json.ErrorJson>({
  code: text, message: text, hint: text, user: text, settled: flag, retryable: flag, retryAfterMs: wide, requestId: text, head: wide, damagedFrom: wide, damagedTo: wide,
})

const limits = message<f.Limits, json.LimitsJson>({ frameBytes: wide, historyMessages: wide, openRequests: wide })

const frame = message<f.Bodies & { readonly id: number }, json.ServerFrameJson>({
  id: wide,
  events: maybe(message<f.Events, json.EventsJson>({
    messages: entries, hints, receipts: list(receipt), notes,
    signals: list(message<f.Signal, json.SignalJson>({ conv: text, from: text, kind: text, data: maybe(bytes), head: wide, id: (v) => String(v ?? ''), timeMs: wide, holdMs: wide })),
    presences: list(message<f.PresenceEvent, json.PresenceJson>({ user: text, online: flag, lastMs: wide, profile: text })),
  })),
  ack: maybe(message<f.Ack, json.AckJson>({ conv: text, seq: wide, timeMs: wide, counted: wide, message: maybe(entry), threadN: wide })),
  error: maybe(wireError),
  history: maybe(message<f.HistoryPage, json.HistoryPageJson>({
    conv: text, messages: entries, head: wide, firstSeq: wide, more: flag, refs: quotes, notes, coveredFrom: wide, coveredTo: wide,
  })),
  sync: maybe(message<f.SyncPage, json.SyncPageJson>({
    convs: list(state), token: text, more: flag, personalReset: flag,
    personal: list(message<f.PersonalValue, json.PersonalJson>({ seq: wide, conv: text, user: text, name: text, value: text })),
  })),
  cursor: maybe(message<f.CursorMoved, json.CursorMovedJson>({ read: wide, mentions: wides, head: wide })),
  focus: maybe(message<f.Focused, json.FocusedJson>({ heads: hints })),
  kick: maybe(message<f.Kick, json.KickJson>({ code: text, message: text, reconnect: flag, reconnectAfterMs: wide })),
  answer: maybe(message<f.Answer, json.AnswerJson>({ json: maybe(text), proto: maybe(bytes) })),
  welcome: maybe(message<f.Welcome, json.WelcomeJson>({
    user: text, inbox: text, historyId: text, heartbeatMs: wide, capabilities: texts, server: text, gateways: texts,
    window: maybe(message<f.Window, json.WindowJson>({ sends: wide, bytes: wide })),
    limits: (v) => limits(v ?? {}),
  })),
  ping: maybe(object), pong: maybe(object), lagged: maybe(object), large: maybe(message<f.Large, json.LargeJson>({ bytes: wide })), signal: maybe(object), watch: maybe(object),
})

/** Reads a frame of the server from the result of JSON.parse. */
export function decode(v: unknown): f.ServerFrame {
  const { id, ...body } = frame(v)
  const [kind = 'unknown'] = Object.keys(body)
  return { id, kind, ...body } as f.ServerFrame // a frame has one body at most
}
