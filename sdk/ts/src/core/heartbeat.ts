import { type Failure, silent } from './errors.js'
import { ask } from './request.js'
import type { Core, Live, Pulse, Request } from './state.js'

// If a request has no answer after 3 s, or after 4 round trips if that is longer, the client sends a ping.
const probeAfterMs = 3000
const probeTrips = 4
const maxTripMs = 3000 // a longer round trip counts as this, because a stalled store does not make the link slow
const pongWithinMs = 2000 // the server has this long after the ping to send anything

// The slowest link that is not taken for a dead one, in bytes per second. A message of 48 KiB over 50 kbit/s
// takes 8 s, and nothing is wrong.
const slowest = 4096
// The values of a transport that reports whole frames only, and of an announced large frame. Spec: S-5.7, S-5.8.
const slowestFrames = 5000 // bytes per second
const patienceMs = 5000 // added to patience after each connection that fell silent
const maxPatienceMs = 10_000

export function newPulse(now: number): Pulse {
  return { heard: now, moved: 0, pinged: 0, trip: 0, ahead: 0, bytes: 0 }
}

/** Adds the time of a request and its answer to the smoothed round trip. */
export function took(p: Pulse, ms: number): void {
  const trip = Math.min(ms, maxTripMs)
  if (p.trip === 0) p.trip = trip
  else p.trip += (trip - p.trip) / 8
}

/** Notes that bytes came over a connection, even if no frame is complete. */
export function heard(c: Core, conn: number): void {
  if (c.live?.conn === conn) c.live.pulse.heard = c.now
}

/** Counts the server as alive for the time that a large frame may take to arrive. Spec: S-5.7. */
export function awaitLarge(c: Core, p: Pulse, bytes: number): void {
  p.heard = c.now + secondsOf(bytes, slowestFrames)
}

/**
 * Notes that the socket of a connection took buffered bytes, and by now all requests up to the id upTo. That
 * shows progress only until the socket has taken the awaited request: the ping, or else the oldest unanswered
 * one. For the socket of a frozen server goes on taking what is written after it. Spec: S-5.2.
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
 * Sends a ping to a silent server, and returns a failure when the ping has no answer in time either. While the
 * client has no request open, the pings of the server show that it lives. Spec: P-7.2, P-7.3.
 */
export function beat(c: Core, lv: Live): Failure | undefined {
  const p = lv.pulse
  if (p.heard > p.pinged) p.pinged = 0
  if (c.now < beatAt(c, lv)) return undefined
  if (p.pinged > 0) return silent
  probe(c, lv)
  return undefined
}

/** Returns when the ping is due, or, after the ping, when the server is given up; Infinity: never. */
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

/** Returns how long some bytes take at a rate: whole seconds, in ms. */
function secondsOf(bytes: number, rate: number): number {
  return Math.floor(bytes / rate) * 1000
}

/**
 * Makes the client more patient after a connection fell silent, if the transport reports whole frames only: the
 * link may just be slow. The patience ends when a request of the kind that had no answer is answered. Spec: S-5.8.
 */
export function fellSilent(c: Core, lv: Live): void {
  const oldest = [...lv.waiting.values()].find((q) => q.kind !== 'ping')
  if (!c.o.wholeFrames || !oldest) return
  c.reach.patience = Math.min(c.reach.patience + patienceMs, maxPatienceMs)
  c.reach.patientFor = oldest.kind
}

/** Updates the heartbeat for an answered request. */
export function answeredIn(c: Core, p: Pulse, q: Request): void {
  p.bytes -= q.bytes
  if (q.kind === c.reach.patientFor) c.reach.patience = 0
  took(p, c.now - q.at)
}

/** Sends a ping. */
export function probe(c: Core, lv: Live): void {
  const p = lv.pulse
  p.pinged = c.now
  p.ahead = p.bytes
  ask(c, lv, { ping: {} }, () => {
    lv.pulse.pinged = 0
  })
}
