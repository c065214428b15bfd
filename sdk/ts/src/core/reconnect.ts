import { clientFrame } from './codec.js'
import { during, type Failure, fromKick, fromWire, silent } from './errors.js'
import type { ServerFrame, Welcome } from './frames.js'
import { capabilities, firstWaitMs, isDue, maxWaitMs, setStatus } from './request.js'
import { begin, finish, take } from './connection.js'
import { beginRound, newAddresses, sendsAway, welcomedAt } from './addresses.js'
import { fellSilent, probe } from './heartbeat.js'
import type { Core, Live, Reach, Try } from './state.js'

/** The version of the protocol that this package speaks. Spec: P-3.2. */
export const protocol = 1

// A frozen gateway accepts connections and says nothing, so a try fails after 3 s. The limit doubles in each
// further round, up to 15 s, because the link may be that slow.
const firstLimitMs = 3000
const maxLimitMs = 15_000
const besideAfterMs = 1000 // after this time without an answer the next address is tried as well

// If a connection has lasted this long, the client goes to another address at once when it ends. One that ends
// sooner is followed by a pause, so that it is not made again and again.
const steadyMs = 5000
const spreadMs = 300 // the clients of a closing gateway spread over this time

export function newReach(url: string, speaks: readonly string[]): Reach {
  return {
    running: false, places: newAddresses(url, speaks), conn: 0, tries: [], last: 0, limit: firstLimitMs, wait: firstWaitMs, pause: 0, without: '',
    asking: false, token: '', refused: '', askAnew: false, patience: 0, patientFor: undefined,
  }
}

/** Begins to connect. It is called when the client begins to run. */
export function start(c: Core): void {
  c.reach.running = true
  c.reach.wait = firstWaitMs
  c.reach.limit = firstLimitMs
  round(c, '')
}

/** Ends all connections and tries. It is called when the client stops running, with the error if there is one. */
export function stop(c: Core, error?: Failure): void {
  endTries(c)
  if (c.live) {
    drop(c, c.live.conn)
    finish(c, c.live)
  }
  c.reach.running = false
  c.reach.pause = 0
  setStatus(c, 'offline', error)
}

/** Makes the client stop running, because a person has to act. */
export function end(c: Core, why: Failure): void {
  endTries(c)
  c.out.ended = why
}

/** Begins a round with the first address. `without` is an address to leave out, or ''. */
function round(c: Core, without: string): void {
  c.reach.pause = 0
  c.reach.without = without
  setStatus(c, 'connecting')
  askToken(c)
}

function askToken(c: Core): void {
  const r = c.reach
  beginRound(r.places, r.without)
  r.asking = true
  c.out.token = { refused: r.refused }
}

/** Takes the answer of the token source: a token, or the reason why there is none. */
export function tokenCame(c: Core, token: string | Failure): void {
  const r = c.reach
  if (!r.asking) return
  r.asking = false
  if (typeof token === 'string') {
    r.token = token
    tryNext(c)
    return
  }
  const why = during('get a token', token)
  if (isFinal(why)) end(c, why)
  else rest(c, why)
}

/** Whether a refusal is final: connecting again cannot help. */
function isFinal(f: Failure): boolean {
  return f.kind === 'refused' && !f.retryable
}

/** Tries the next address of the round. It returns false if none is left. */
function tryNext(c: Core): boolean {
  const r = c.reach
  const addr = r.places.left.shift()
  if (addr === undefined) return false
  r.conn++
  r.last = c.now
  r.tries.push({ conn: r.conn, addr, begun: c.now, greeted: 0 })
  c.out.dials.push({ conn: r.conn, addr })
  return true
}

/** Sends the hello over a connection that was opened. Spec: P-3.1. */
export function opened(c: Core, conn: number): void {
  const t = find(c, conn)
  if (!t) return
  t.greeted = c.now
  const hello = {
    versionMin: protocol, versionMax: protocol, token: c.reach.token, device: c.meta.device, deviceKind: c.o.deviceKind ?? '', client: c.o.client, capabilities,
  }
  c.out.frames.push({ conn, data: c.encode(clientFrame(1, { hello })).data })
}

function find(c: Core, conn: number): Try | undefined {
  return c.reach.tries.find((t) => t.conn === conn)
}

/** Applies a frame of a connection. Frames of a connection that was given up are dropped. Spec: P-3.5, S-1.2. */
export function frame(c: Core, conn: number, f: ServerFrame): void {
  const lv = c.live
  if (lv && lv.conn === conn) {
    lv.pulse.heard = c.now
    const over = take(c, lv, f)
    if (over) lose(c, lv, over)
    return
  }
  const t = find(c, conn)
  if (!t) return
  if (f.kind === 'welcome') welcomed(c, t, f.welcome)
  else if (f.kind === 'error') failed(c, t, fromWire(f.error))
  else if (f.kind === 'kick') failed(c, t, fromKick(f.kick))
}

/** Goes on after a connection has ended, or could not be opened. */
export function closed(c: Core, conn: number, why: Failure): void {
  const t = find(c, conn)
  if (c.live?.conn === conn) lose(c, c.live, during('connection ended', why))
  else if (t) failed(c, t, why)
}

/** Goes on after a try that brought no welcome. */
function failed(c: Core, t: Try, why: Failure): void {
  const r = c.reach
  r.tries = r.tries.filter((x) => x !== t)
  drop(c, t.conn)
  if (why.code === 'unauthenticated' && !r.askAnew) { // another token may work; ask for it at once
    endTries(c)
    r.refused = r.token
    r.askAnew = true
    askToken(c)
  } else if (isFinal(why)) end(c, why)
  else if (!tryNext(c) && r.tries.length === 0) {
    r.limit = Math.min(2 * r.limit, maxLimitMs)
    rest(c, why)
  }
}

/** Pauses before the next round, for the time that the server asks for or for a growing one. Spec: P-3.5, P-3.6. */
function rest(c: Core, why: Failure): void {
  const r = c.reach
  const least = why.retryAfterMs
  const ms = least > 0 ? least + part(c, least) : r.wait / 2 + part(c, r.wait / 2)
  r.wait = Math.min(2 * r.wait, maxWaitMs)
  pause(c, ms, '', why)
}

function pause(c: Core, ms: number, without: string, why: Failure): void {
  c.reach.pause = c.now + ms
  c.reach.without = without
  setStatus(c, 'offline', why, c.reach.pause)
}

/** Returns a random number from 0 to below ms. */
function part(c: Core, ms: number): number {
  return Math.floor(c.random() * ms)
}

/** Makes a try the connection of the client, and ends the other tries. */
function welcomed(c: Core, t: Try, w: Welcome): void {
  const r = c.reach
  r.tries = r.tries.filter((x) => x !== t)
  endTries(c)
  r.wait = firstWaitMs
  r.limit = firstLimitMs
  r.refused = ''
  r.askAnew = false
  welcomedAt(r.places, t.addr, w.gateways)
  const why = begin(c, t, w)
  if (why) {
    drop(c, t.conn)
    end(c, why)
  }
}

/**
 * Goes on after the live connection has ended. After a first `unauthenticated` the client asks for another token and
 * connects at once; any other final refusal ends it. If the connection lasted steadyMs, no refusal but `draining` ended
 * it, and there are several gateways, the client goes to another one, at once or within spreadMs. Otherwise it pauses
 * first. Spec: P-3.6, S-2.6.
 */
export function lose(c: Core, lv: Live, why: Failure): void {
  const r = c.reach
  const lasted = c.now - lv.began >= steadyMs
  drop(c, lv.conn)
  if (why.kind === 'silent') fellSilent(c, lv)
  finish(c, lv)
  if (why.code === 'unauthenticated' && !r.askAnew) {
    r.refused = r.token
    r.askAnew = true
    round(c, '')
    return
  }
  if (isFinal(why)) {
    end(c, why)
    return
  }
  if (why.kind === 'silent') r.places.silent.add(lv.addr)
  else if (why.code === 'draining') sendsAway(r.places, lv.addr)
  else if (why.kind === 'refused') { // the refusal concerns this client: another gateway would say the same
    rest(c, why)
    return
  }
  if (!lasted || r.places.list.length === 1) rest(c, why)
  else if (why.kind === 'silent') round(c, lv.addr)
  else pause(c, part(c, spreadMs), lv.addr, why)
}

/**
 * Reacts to a wake-up of the device or a change of its network: checks the live connection, or ends the pause
 * before the next round. Spec: P-7.3, S-5.6.
 */
export function wakeUp(c: Core): void {
  const r = c.reach
  if (c.live) probe(c, c.live)
  else if (r.pause !== 0) {
    r.wait = firstWaitMs
    r.limit = firstLimitMs
    round(c, '')
  }
}

/** Ends a pause or a try whose time is over, and tries the next address beside a slow one. */
export function stepReach(c: Core): void {
  const r = c.reach
  if (!r.running) return
  if (r.pause !== 0) {
    if (!isDue(c, r.pause)) return
    round(c, r.without)
  }
  for (const t of r.tries) {
    if (!r.tries.includes(t)) continue // given up since
    if (isDue(c, t.begun + r.limit)) {
      r.places.silent.add(t.addr)
      failed(c, t, during(`connect ${t.addr}`, silent))
    }
  }
  if (r.tries.length > 0 && r.places.left.length > 0 && isDue(c, r.last + besideAfterMs)) tryNext(c)
}

/** Gives up all tries, and the wait for a token. */
function endTries(c: Core): void {
  for (const t of c.reach.tries) drop(c, t.conn)
  c.reach.tries = []
  c.reach.asking = false
}

function drop(c: Core, conn: number): void {
  c.out.drops.push(conn)
}
