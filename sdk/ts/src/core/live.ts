import { alarmAt, type Core, setStatus } from './core.js'
import { clientFrame, type Encoded } from './codec.js'
import { moveAll, sendFocus } from './cursor.js'
import { type Conv, takeEvents } from './conversation.js'
import { type Failure, fromWire, invalid, refusal } from './errors.js'
import type { ClientBody, ServerFrame, SetFocus, Welcome, WireError } from './frames.js'
import { endLossy, sendWatch, typingEnds } from './lossy.js'
import { sendAll } from './outbox.js'
import { answeredIn, awaitLarge, beat, beatAt, newPulse, type Pulse, took } from './pulse.js'
import { askQuotes } from './quote.js'
import { fromKick, lose, type Try } from './reach.js'
import { repairAll } from './repair.js'
import { forget, startSync } from './sync.js'

/** What a client understands, and a server may offer, beyond the base. Spec: P-2.6. */
export const capabilities = ['edit', 'cursor', 'focus', 'newest', 'call', 'rel', 'signal', 'presence', 'notes', 'personal', 'mentions', 'large'] as const
export type Capability = (typeof capabilities)[number]

const maxReads = 6 // history requests under way, if the server takes as many (P-2.2)
/** How long a refusal that names no time is waited for. */
export const retryWaitMs = 1000
const minPage = 10 // entries of a history page over a link that breaks

/** One connection from its welcome on. */
export interface Live {
  readonly conn: number
  readonly addr: string
  readonly began: number
  readonly welcome: Welcome
  readonly pulse: Pulse

  nextId: number
  readonly waiting: Map<number, Request> // by id, in the order in which they were sent

  sends: number // unanswered, P-4.6
  sendBytes: number
  synced: boolean
  syncing: boolean // a sync is under way
  again: boolean // another is needed after it
  syncAt: number // 0: not
  newest: number // asked of the sync under way
  reads: number // history requests under way
  moving: number // cursor requests under way
  pages: number // history pages that came
  back: boolean // the server holds less than it told, or something else
  missing: Conv[] // to be repaired, first come first served
  focused: SetFocus | undefined // sent on this connection; absent: all
  focusAt: number // when it has to be sent again; 0: not
  watchDue: boolean // the server does not know whom the application watches
  watchAt: number // not before
  pushed: Set<string> // keys of settings that came as events since the last lagged
}

/** A request that waits for its answer. answer is called once, with nothing when the connection ended. */
export interface Request {
  readonly at: number
  readonly kind: 'send' | 'page' | 'ping' | 'other'
  readonly bytes: number
  readonly answer: (f: ServerFrame | undefined) => void
}

/**
 * Whether no further history request may be sent. A server that names no limit takes 16
 * requests. Some are left for cursors, syncs and the application. Spec: S-7.9.
 */
export function readsFull(lv: Live): boolean {
  const n = lv.welcome.limits.openRequests
  return lv.reads >= (n > 0 ? Math.min(maxReads, Math.max(1, n >> 1)) : maxReads)
}

export function offers(lv: Live, capability: Capability): boolean {
  return lv.welcome.capabilities.includes(capability)
}

/** Sends a request; answer gets its answer, or nothing. */
export function ask(c: Core, lv: Live, body: ClientBody, answer: Request['answer']): void {
  askEncoded(c, lv, kindOf(body), c.encode(clientFrame(lv.nextId + 1, body)), answer)
}

function kindOf(body: ClientBody): Request['kind'] {
  if ('history' in body || 'sync' in body) return 'page'
  return 'ping' in body ? 'ping' : 'other'
}

/** Sends an encoded request, which has the next id. */
export function askEncoded(c: Core, lv: Live, kind: Request['kind'], f: Encoded, answer: Request['answer']): void {
  lv.nextId++
  lv.waiting.set(lv.nextId, { at: c.now, kind, bytes: f.bytes, answer })
  lv.pulse.bytes += f.bytes
  c.out.frames.push({ conn: lv.conn, data: f.data })
}

/**
 * Sends a request of the application over the connection that is live. need is the
 * capability that it takes, or ''. It returns why the request is not sent.
 */
export function call(c: Core, need: Capability | '', body: ClientBody, answer: Request['answer']): Failure | undefined {
  const lv = c.live
  if (!lv) return refusal('unavailable', 'there is no connection', { retryable: true })
  if (need !== '' && !offers(lv, need)) return refusal('unsupported', `the server does not offer ${need}`, { settled: true })
  let f: Encoded
  try {
    f = c.encode(clientFrame(lv.nextId + 1, body))
  } catch (why) {
    return invalid(String(why))
  }
  askEncoded(c, lv, kindOf(body), f, answer)
  return undefined
}

/** Makes a connection the client's. It returns why that cannot be. Spec: P-3.4. */
export function begin(c: Core, t: Try, w: Welcome): Failure | undefined {
  if (c.meta.user !== '' && c.meta.user !== w.user) return refusal('invalid', `the store belongs to ${c.meta.user}, the token to ${w.user}`)
  const lv: Live = {
    conn: t.conn, addr: t.addr, began: c.now, welcome: w, pulse: newPulse(c.now), nextId: 1, waiting: new Map(),
    sends: 0, sendBytes: 0, synced: false, syncing: false, again: false, syncAt: 0, newest: 0, reads: 0, moving: 0, pages: 0, back: false,
    missing: [], focused: undefined, focusAt: 0, watchDue: false, watchAt: 0, pushed: new Set(),
  }
  c.live = lv
  took(lv.pulse, c.now - t.greeted)
  if (c.meta.user !== w.user || c.meta.inbox !== w.inbox) {
    c.meta.user = w.user
    c.meta.inbox = w.inbox
    c.metaDirty = true
  }
  if (c.meta.history !== w.historyId) {
    forget(c)
    c.meta.history = w.historyId
  }
  c.status = { ...c.status, user: w.user, server: w.server, history: w.historyId }
  setStatus(c, 'live')
  c.changed.account = true // what happened meanwhile in the inbox is not listed
  for (const v of c.convs.values()) v.before = v.have
  for (const l of c.lanes.values()) {
    if (l.queue[0]?.error?.code === 'draining') l.at = 0 // this server is another one
  }
  startSync(c)
  sendFocus(c)
  lv.watchDue = c.lossy.watch.length > 0
  sendWatch(c, lv)
  return undefined
}

/** Ends the connection for all who wait for it. */
export function finish(c: Core, lv: Live): void {
  if (lv.reads > 0 && lv.pages === 0) c.pageLimit = Math.max(pageSize(c, lv) >> 1, minPage) // a link that breaks before a page is through gets smaller ones
  else if (lv.pages > 0 && c.pageLimit > 0) c.pageLimit = Math.min(2 * c.pageLimit, lv.welcome.limits.historyMessages)
  for (const q of lv.waiting.values()) q.answer(undefined)
  for (const v of c.convs.values()) {
    v.queued = false
    v.moving = false
  }
  endLossy(c)
  c.live = undefined
}

/** How many entries of a history page are asked for. */
function pageSize(c: Core, lv: Live): number {
  return c.pageLimit > 0 ? c.pageLimit : lv.welcome.limits.historyMessages
}

/** Applies one frame. It returns why the connection is over. */
export function take(c: Core, lv: Live, f: ServerFrame): Failure | undefined {
  const q = lv.waiting.get(f.id)
  if (q) {
    lv.waiting.delete(f.id)
    answeredIn(c, lv.pulse, q)
    q.answer(f)
    return undefined
  }
  switch (f.kind) {
    case 'events':
      takeEvents(c, lv, f.events)
      return undefined
    case 'ping': // P-7.1
      c.out.frames.push({ conn: lv.conn, data: c.encode(clientFrame(f.id, { pong: {} })).data })
      return undefined
    case 'lagged': // P-6.4
      lv.pushed.clear() // what was removed meanwhile was not pushed
      startSync(c)
      return undefined
    case 'large':
      awaitLarge(c, lv.pulse, f.large.bytes)
      return undefined
    case 'kick': // P-3.5
      return fromKick(f.kick)
    case 'error':
      return fromWire(f.error)
    default:
      return undefined
  }
}

/** Does what is due on the connection. */
export function stepLive(c: Core, lv: Live): void {
  const dead = beat(c, lv)
  if (dead) {
    lose(c, lv, dead)
    return
  }
  if (lv.back && !lv.syncing) { // P-6.8
    lv.back = false
    c.out.remarks.push('the server went back: its entries are dropped')
    forget(c)
    startSync(c)
  }
  if (!lv.syncing && lv.syncAt !== 0) {
    if (c.now < lv.syncAt) alarmAt(c, lv.syncAt)
    else startSync(c)
  }
  if (lv.focusAt !== 0) {
    if (c.now < lv.focusAt) alarmAt(c, lv.focusAt)
    else {
      lv.focusAt = 0
      sendFocus(c)
    }
  }
  sendWatch(c, lv)
  typingEnds(c)
  repairAll(c, lv)
  askQuotes(c, lv)
  moveAll(c, lv)
  if (c.sends) sendAll(c, lv)
  alarmAt(c, beatAt(c, lv))
}

/** When a request that was refused with e may be repeated. */
export function retryAt(c: Core, e: WireError): number {
  return c.now + (e.retryAfterMs || retryWaitMs)
}
