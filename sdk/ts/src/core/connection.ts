import { clientFrame } from './codec.js'
import { type Failure, fromKick, fromWire, refusal } from './errors.js'
import { takeEvents } from './events.js'
import { repeatFocus, sendFocus } from './focus.js'
import type { ServerFrame, Welcome } from './frames.js'
import { endDrain } from './sendlane.js'
import { alarmAt, setStatus, wantSync } from './request.js'
import { endLossy, sendWatch, typingEnds } from './signals.js'
import { moveAll } from './cursormoves.js'
import { answeredIn, awaitLarge, beat, beatAt, newPulse, took } from './heartbeat.js'
import { askQuotes } from './quote.js'
import { repairAll } from './repair.js'
import { storeMeta } from './rows.js'
import { sendAll } from './send.js'
import type { Core, Live, Try } from './state.js'
import { firstSync, forget, stepSync } from './sync.js'

const minPage = 10 // the fewest entries of a history page over a link that breaks

/** Makes a connection the live one. It returns a failure if the store belongs to another user. Spec: P-3.4. */
export function begin(c: Core, t: Try, w: Welcome): Failure | undefined {
  if (c.meta.user !== '' && c.meta.user !== w.user) return refusal('invalid', `the store belongs to ${c.meta.user}, the token to ${w.user}`)
  const lv: Live = {
    conn: t.conn, addr: t.addr, began: c.now, welcome: w, pulse: newPulse(c.now), nextId: 1, waiting: new Map(),
    sends: 0, sendBytes: 0, synced: false, syncing: false, syncAt: 0, newest: 0, reads: 0, pages: 0, moving: new Set(), back: false,
    repairs: new Map(), focused: undefined, focusAt: Infinity, watchDue: c.lossy.watch.users.length > 0, watchAt: 0,
    pushed: new Set(),
  }
  c.live = lv
  took(lv.pulse, c.now - t.greeted)
  if (c.meta.user !== w.user || c.meta.inbox !== w.inbox) {
    c.meta.user = w.user
    c.meta.inbox = w.inbox
    storeMeta(c)
  }
  if (c.meta.history !== w.historyId) {
    forget(c)
    c.meta.history = w.historyId
  }
  c.status = { ...c.status, user: w.user, server: w.server, history: w.historyId }
  setStatus(c, 'live')
  c.changed.account = true // a sync does not list the inbox entries that were missed
  endDrain(c)
  firstSync(c, lv)
  sendFocus(c)
  sendWatch(c, lv)
  return undefined
}

/**
 * Ends the live connection: it calls the answer function of each open request with undefined. It also adapts the page
 * size for the next connection.
 */
export function finish(c: Core, lv: Live): void {
  if (lv.reads > 0 && lv.pages === 0) c.pageLimit = Math.max(pageSize(c, lv) >> 1, minPage) // the link broke before a page arrived: ask for smaller pages
  else if (lv.pages > 0 && c.pageLimit > 0) c.pageLimit = Math.min(2 * c.pageLimit, lv.welcome.limits.historyMessages)
  for (const q of lv.waiting.values()) q.answer(undefined)
  endLossy(c)
  c.live = undefined
}

/** Returns how many entries of a history page are asked for. */
function pageSize(c: Core, lv: Live): number {
  return c.pageLimit > 0 ? c.pageLimit : lv.welcome.limits.historyMessages
}

/** Applies one frame. It returns a failure if the frame ends the connection. */
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
      lv.pushed.clear() // settings may have been removed without a push
      wantSync(c)
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

/** Does what is due on the connection. It returns a failure if the connection is dead. */
export function stepLive(c: Core, lv: Live): Failure | undefined {
  const dead = beat(c, lv)
  if (dead) return dead
  stepSync(c, lv)
  repeatFocus(c, lv)
  sendWatch(c, lv)
  typingEnds(c)
  repairAll(c, lv)
  askQuotes(c, lv)
  moveAll(c, lv)
  if (c.outbox.sends) sendAll(c, lv)
  alarmAt(c, beatAt(c, lv))
  return undefined
}
