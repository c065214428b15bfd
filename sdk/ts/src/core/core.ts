import { type Change, noChange } from './change.js'
import { encodeJson } from './codec.js'
import { during, failure } from './errors.js'
import { release, takeFresh } from './sendlane.js'
import { stepLive } from './connection.js'
import { newOutbox } from './outbox.js'
import { load, takeRows } from './loadrows.js'
import { newLossy } from './signals.js'
import { end, lose, newReach, stepReach } from './reconnect.js'
import { storeMeta } from './rows.js'
import type { Row, StoredRow } from './schema.js'
import { newViews } from './snapshot.js'
import type { Core, CoreOptions, OutgoingState, Outputs, Writable } from './state.js'
import { countUnread, newUnread } from './unread.js'

/** The rows that one turn writes, and the effects that wait for the write. */
export interface Written {
  readonly rows: readonly Row[] // all or none
  readonly durable: boolean // the write has to be durable before stored is called
  readonly change: Change // reported to the application once it is written
  readonly fresh: readonly OutgoingState[] // messages whose rows are in this write
}

/** Makes a core. Call open before anything else. */
export function newCore(o: CoreOptions, random: () => number, newId: () => string, now: number): Core {
  return {
    o, random, newId, now, encode: o.encode ?? encodeJson, alarm: Infinity, out: noOutputs(), reach: newReach(o.url, o.speaks),
    status: { state: 'offline', user: '', server: '', history: '', synced: false, retryMs: 0 }, changed: noChange(),
    meta: { user: '', device: '', history: '', inbox: '', token: '', synced: false },
    convs: new Map(), direct: new Map(), outbox: newOutbox(), moves: new Set(),
    focus: undefined, live: undefined, pageLimit: 0, unread: newUnread(), incoming: { reading: false, begun: false, positions: new Map() },
    lossy: newLossy(), settings: new Map(), views: newViews(), asking: new Set(),
    store: { rows: new Map(), dirty: new Set(), metaDirty: false },
  }
}

/** Loads the rows of the store. It throws an Error with the key of a row that it cannot read. */
export function open(c: Core, rows: readonly StoredRow[]): void {
  load(c, rows)
  if (c.o.device !== undefined) c.meta.device = c.o.device
  if (c.meta.device === '') {
    c.meta.device = c.newId()
    storeMeta(c)
  }
}

/** Does everything that is due. Then alarm is the latest time of the next call. */
export function step(c: Core): void {
  c.alarm = Infinity
  stepReach(c)
  const lv = c.live
  const dead = lv && stepLive(c, lv)
  if (dead) lose(c, lv, dead)
}

/** Returns the actions that the core has asked for since the last call. */
export function takeOutputs(c: Core): Outputs {
  const out = c.out
  c.out = noOutputs()
  return out
}

function noOutputs(): Writable<Outputs> {
  return { dials: [], drops: [], frames: [], settled: [], remarks: [] }
}

/**
 * Returns the rows and changes since the last call. Once the caller has written the rows and called stored, the
 * application is told and the messages go out. If there are no rows and the change is empty, there is nothing
 * to write. Spec: S-1.3, S-17.1.
 */
export function prepare(c: Core): Written {
  countUnread(c)
  const fresh = takeFresh(c)
  const w: Written = { rows: takeRows(c), durable: fresh.length > 0, fresh, change: c.changed }
  c.changed = noChange()
  return w
}

/** Notes that the rows of w are written, durably if w.durable. It returns the change for the application. */
export function stored(c: Core, w: Written): Change {
  for (const o of w.fresh) release(c, o)
  return w.change
}

/**
 * Ends the client after a failed write: it is unknown whether the rows are stored. The application is not told
 * the change. Spec: S-17.2.
 */
export function storeFailed(c: Core, why: string): void {
  end(c, during('the store of the client failed', failure('store', why)))
}
