import { type Failure, silent } from './errors.js'
import { ask } from './request.js'
import type { Core, Live, Pulse, Request } from './state.js'

// An answer that does not come has the client ask whether the server is there: after 3 s, or
// 4 round trips where those are longer.
const probeAfterMs = 3000
const probeTrips = 4
const maxTripMs = 3000 // counted of a round trip: a store that stalls is no long way
const pongWithinMs = 2000 // how long the server then has to say anything at all

// The link, in bytes per second, that carries what is under way in time. A message of 48 KiB
// over 50 kbit/s takes 8 s, and nothing is wrong.
const slowest = 4096
// What holds where the client sees whole frames only. Spec: S-5.7, S-5.8.
const slowestFrames = 5000 // bytes per second
const patienceMs = 5000 // by which the client is more patient after each connection that fell silent
const maxPatienceMs = 10_000

export function newPulse(now: number): Pulse {
  return { heard: now, moved: 0, pinged: 0, trip: 0, ahead: 0, bytes: 0 }
}

/** Notes how long an answer has taken. */
export function took(p: Pulse, ms: number): void {
  const trip = Math.min(ms, maxTripMs)
  if (p.trip === 0) p.trip = trip
  else p.trip += (trip - p.trip) / 8
}

/** Bytes of the server came over a connection, also without a whole frame. */
export function heard(c: Core, conn: number): void {
  if (c.live?.conn === conn) c.live.pulse.heard = c.now
}

/** A frame of some bytes comes next: as long as it may take the server lives. Spec: S-5.7. */
export function awaitLarge(c: Core, p: Pulse, bytes: number): void {
  p.heard = c.now + secondsOf(bytes, slowestFrames)
}

/**
 * The socket of a connection took bytes that were waiting, and all of the requests up to an id.
 * They are a sign of life only as long as the request that has waited for longest, or a ping, is
 * not gone: the socket of a server that is frozen goes on taking what is written after it.
 * Spec: S-5.2.
 */
export function moved(c: Core, conn: number, upTo: number): void {
  const lv = c.live
  if (lv?.conn !== conn) return
  const p = lv.pulse
  const all = [...lv.waiting]
  const awaited = (p.pinged > 0 ? all.filter(([, q]) => q.kind === 'ping').pop() : all[0])?.[0] ?? 0
  if ((p.taken ?? 0) < awaited) p.moved = c.now
  p.taken = Math.max(p.taken ?? 0, upTo)
}

/**
 * Asks a server that is silent whether it is there, and gives it up: then it returns why. An
 * idle client sends nothing by itself: the server pings first. Spec: P-7.2, P-7.3.
 */
export function beat(c: Core, lv: Live): Failure | undefined {
  const p = lv.pulse
  if (p.heard > p.pinged) p.pinged = 0
  if (c.now < beatAt(c, lv)) return undefined
  if (p.pinged > 0) return silent
  probe(c, lv)
  return undefined
}

/** When the server is asked, or given up; Infinity: never. */
export function beatAt(c: Core, lv: Live): number {
  const p = lv.pulse
  const [oldest] = lv.waiting.values()
  const since = Math.max(oldest?.at ?? 0, p.heard)
  if (p.pinged > 0) {
    const carried = since + secondsOf(p.ahead, c.o.wholeFrames ? slowestFrames : slowest) + pongWithinMs
    return Math.max(carried, Math.max(p.pinged, p.moved) + Math.max(pongWithinMs, 2 * p.trip))
  }
  if (oldest) return Math.max(since, p.moved) + Math.max(probeAfterMs, probeTrips * p.trip) + secondsOf(oldest.bytes, slowest) + c.reach.patience
  const every = lv.welcome.heartbeatMs
  return every > 0 ? p.heard + 1.5 * every : Infinity
}

/** The whole seconds, in ms, that some bytes take. */
function secondsOf(bytes: number, rate: number): number {
  return Math.floor(bytes / rate) * 1000
}

/**
 * A connection fell silent. Where the client sees whole frames only, that may be a slow link:
 * it is more patient until a request of the kind that waited is answered. Spec: S-5.8.
 */
export function fellSilent(c: Core, lv: Live): void {
  const oldest = [...lv.waiting.values()].find((q) => q.kind !== 'ping')
  if (!c.o.wholeFrames || !oldest) return
  c.reach.patience = Math.min(c.reach.patience + patienceMs, maxPatienceMs)
  c.reach.patientFor = oldest.kind
}

/** Notes that a request is answered. */
export function answeredIn(c: Core, p: Pulse, q: Request): void {
  p.bytes -= q.bytes
  if (q.kind === c.reach.patientFor) c.reach.patience = 0
  took(p, c.now - q.at)
}

/** Asks the server whether it is there. */
export function probe(c: Core, lv: Live): void {
  const p = lv.pulse
  p.pinged = c.now
  p.ahead = p.bytes
  ask(c, lv, { ping: {} }, () => {
    lv.pulse.pinged = 0
  })
}
