import { sameFields } from './change.js'
import { show } from './conversation.js'
import type { Events, Signal } from './frames.js'
import { ask, isDue, offers, retryAt } from './request.js'
import type { Conv, Core, Heard, Live, Lossy } from './state.js'

const typingEveryMs = 3000 // P-13.2
const typingShownMs = 6000 // P-13.2
const maxTyping = 100 // the most typing users of one conversation
const maxSignals = 64
const signalsAreKeptMs = 60_000 // equal to the longest hold of P-13.4

export function newLossy(): Lossy {
  return { typing: new Map(), told: new Map(), signals: [], watch: { users: [], conv: '' }, presence: new Map() }
}

/** Sends a typing signal, at most every 3 s in each conversation. Spec: S-11.2. */
export function sayTyping(c: Core, conv: string): void {
  const lv = c.live
  const told = c.lossy.told.get(conv)
  if (!lv || !offers(lv, 'signal') || told !== undefined && c.now - told < typingEveryMs) return
  c.lossy.told.set(conv, c.now)
  ask(c, lv, { signal: { conv, kind: 'typing' } }, () => undefined)
}

/** Sets the users whose presence the application wants to know, and the conversation in which it shows them. */
export function setWatch(c: Core, users: readonly string[], conv: string): void {
  c.lossy.watch = { users: [...users], conv }
  for (const user of c.lossy.presence.keys()) if (!users.includes(user)) c.lossy.presence.delete(user)
  if (c.live) {
    c.live.watchDue = true
    sendWatch(c, c.live)
  }
}

/** Sends the watched users to the server, if that is due. Spec: S-11.4. */
export function sendWatch(c: Core, lv: Live): void {
  if (!lv.watchDue || !offers(lv, 'presence') || !isDue(c, lv.watchAt)) return
  lv.watchDue = false
  ask(c, lv, { watch: c.lossy.watch }, (f) => {
    if (f?.kind !== 'error' || !f.error.retryable) return
    lv.watchDue = true
    lv.watchAt = retryAt(c, f.error)
  })
}

/** Applies the pushed signals and presences, which are not stored. */
export function takeLossy(c: Core, ev: Events): void {
  for (const s of ev.signals) takeSignal(c, s)
  for (const p of ev.presences) {
    if (!c.lossy.watch.users.includes(p.user)) continue // of a former watch
    const { user, ...now } = p
    const was = c.lossy.presence.get(user)
    if (was === sameFields(was, now)) continue
    c.lossy.presence.set(user, now)
    c.changed.presence = true
  }
}

/** Returns the signals that are not too old, the oldest first. */
export function keptSignals(c: Core): readonly Heard[] {
  const { signals } = c.lossy
  return signals.some((x) => c.now - x.at >= signalsAreKeptMs) ? signals.filter((x) => c.now - x.at < signalsAreKeptMs) : signals
}

/**
 * Keeps the newest signal of each conversation, sender and kind. A held signal may come twice; the id shows
 * that. Spec: P-13.1, S-11.3.
 */
function takeSignal(c: Core, s: Signal): void {
  if (s.kind === 'typing') {
    takeTyping(c, s)
    return
  }
  const others = keptSignals(c)
  const old = others.find(({ signal: x }) => x.conv === s.conv && x.from === s.from && x.kind === s.kind)
  c.lossy.signals = others
  if (old && (old.signal.id === s.id || old.signal.timeMs > s.timeMs)) return
  c.lossy.signals = [...others.filter((x) => x !== old).slice(1 - maxSignals), { signal: s, at: c.now }]
  c.changed.signals = true
}

/**
 * Shows that a user is typing, unless the client has an entry of that user above the head in the signal: then
 * the signal is older than that message. Spec: P-13.3, S-11.1.
 */
function takeTyping(c: Core, s: Signal): void {
  const v = c.convs.get(s.conv)
  if (!v || s.from === c.meta.user || wrote(v, s.from, s.head)) return
  let of = c.lossy.typing.get(v)
  if (!of) {
    of = new Map()
    c.lossy.typing.set(v, of)
  }
  if (!of.has(s.from)) {
    if (of.size >= maxTyping) return
    show(c, v)
  }
  of.set(s.from, c.now + typingShownMs)
}

/** Whether the client has an entry of a user above a seq. */
function wrote(v: Conv, user: string, seq: number): boolean {
  for (let i = v.slots.length - 1; i >= 0; i--) {
    const m = v.slots[i]?.entry
    if (!m || m.seq <= seq) break
    if (m.from === user) return true
  }
  for (const m of v.held.values()) if (m.seq > seq && m.from === user) return true
  return false
}

/** Ends the typing of a user whose entry arrived. Spec: P-13.3. */
export function stopTyping(c: Core, v: Conv, user: string): void {
  if (c.lossy.typing.get(v)?.delete(user)) show(c, v)
}

/** Ends the typing of users without a new signal for 6 s. */
export function typingEnds(c: Core): void {
  for (const [v, of] of c.lossy.typing) {
    for (const [user, until] of of) {
      if (!isDue(c, until)) continue
      of.delete(user)
      show(c, v)
    }
    if (of.size === 0) c.lossy.typing.delete(v)
  }
}

/** Returns the users who are typing in a conversation, sorted. */
export function typists(c: Core, v: Conv): string[] {
  return [...c.lossy.typing.get(v)?.keys() ?? []].sort()
}

/** Forgets typing and presence when the connection ends. */
export function endLossy(c: Core): void {
  const l = c.lossy
  for (const v of l.typing.keys()) show(c, v)
  if (l.presence.size > 0) c.changed.presence = true
  l.typing.clear()
  l.presence.clear()
  l.told.clear()
}
