import { clientFrame, type Encoded } from './codec.js'
import { type Failure, invalid, refusal } from './errors.js'
import { type ClientBody, defined, type GetHistory, type WireError } from './frames.js'
import type { State } from './model.js'
import type { Core, Live, Request } from './state.js'

/** The optional capabilities that a client understands, and a server may offer. Spec: P-2.6. */
export const capabilities = ['edit', 'cursor', 'focus', 'newest', 'call', 'rel', 'signal', 'presence', 'notes', 'personal', 'mentions', 'large', 'profiles'] as const
export type Capability = (typeof capabilities)[number]

const maxReads = 6 // history requests under way at once, if the server allows as many (P-2.2)

/** The wait after a refusal without a time. */
export const retryWaitMs = 1000
export const firstWaitMs = 1000 // after a lost connection, P-3.6
export const maxWaitMs = 30_000

/** Schedules a call of step at t at the latest. */
export function alarmAt(c: Core, t: number): void {
  if (t < c.alarm) c.alarm = t
}

/** Whether a time has come. If not, it schedules step for that time. */
export function isDue(c: Core, at: number): boolean {
  if (at > c.now) alarmAt(c, at)
  return at <= c.now
}

/** Sets the status and marks it as changed. */
export function setStatus(c: Core, state: State, error?: Failure, retryMs = 0): void {
  const { user, server, history } = c.status
  c.status = { state, user, server, history, synced: false, retryMs, ...defined({ error }) }
  c.changed.status = true
}

/**
 * Whether as many history requests are open as may be: half of the requests that the server allows to be open, and at
 * most 6; 6 if the server names no limit. The rest stays free for cursors, syncs and the application. Spec: S-7.9.
 */
export function readsFull(lv: Live): boolean {
  const n = lv.welcome.limits.openRequests
  return lv.reads >= (n > 0 ? Math.min(maxReads, Math.max(1, n >> 1)) : maxReads)
}

export function offers(lv: Live, capability: Capability): boolean {
  return lv.welcome.capabilities.includes(capability)
}

/** Sends a request. answer is called with its answer, or with undefined if the connection ends. */
export function ask(c: Core, lv: Live, body: ClientBody, answer: Request['answer']): void {
  askEncoded(c, lv, kindOf(body), c.encode(clientFrame(lv.nextId + 1, body)), answer)
}

/** Asks for a page of a history. */
export function askHistory(c: Core, lv: Live, history: GetHistory, answer: Request['answer']): void {
  lv.reads++
  ask(c, lv, { history }, (f) => {
    lv.reads--
    if (f) lv.pages++
    answer(f)
  })
}

function kindOf(body: ClientBody): Request['kind'] {
  if ('history' in body || 'sync' in body) return 'page'
  return 'ping' in body ? 'ping' : 'other'
}

/** Sends a request that was encoded with the next id. */
export function askEncoded(c: Core, lv: Live, kind: Request['kind'], f: Encoded, answer: Request['answer']): void {
  lv.nextId++
  lv.waiting.set(lv.nextId, { at: c.now, kind, bytes: f.bytes, answer })
  lv.pulse.bytes += f.bytes
  c.out.frames.push({ conn: lv.conn, data: f.data })
}

/**
 * Sends a request of the application over the live connection. need is the capability that the request takes,
 * or ''. It returns a failure if the request cannot be sent.
 */
export function call(c: Core, need: Capability | '', body: ClientBody, answer: Request['answer']): Failure | undefined {
  const lv = c.live
  if (!lv) return refusal('unavailable', 'there is no connection', { retryable: true })
  if (need !== '' && !offers(lv, need)) return invalid(`the server does not offer ${need}`, 'unsupported')
  let f: Encoded
  try {
    f = c.encode(clientFrame(lv.nextId + 1, body))
  } catch (why) {
    return invalid(String(why))
  }
  askEncoded(c, lv, kindOf(body), f, answer)
  return undefined
}

/** Makes the next step begin a sync. Spec: S-6.1. */
export function wantSync(c: Core): void {
  if (c.live) c.live.syncAt = 0
}

/** Returns when a request that was refused with e may be sent again. */
export function retryAt(c: Core, e: WireError): number {
  return c.now + (e.retryAfterMs || retryWaitMs)
}
