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
  readonly durable: boolean // before stored is called
  readonly change: Change // to be told once it is written
  readonly fresh: readonly OutgoingState[] // for stored
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

/** Takes the rows of the store. It throws an Error with the key of a row that it cannot read. */
export function open(c: Core, rows: readonly StoredRow[]): void {
  load(c, rows)
  if (c.o.device !== undefined) c.meta.device = c.o.device
  if (c.meta.device === '') {
    c.meta.device = c.newId()
    storeMeta(c)
  }
}

/** Carries out everything that is due. Afterwards alarm is the latest time of the next call. */
export function step(c: Core): void {
  c.alarm = Infinity
  stepReach(c)
  const lv = c.live
  const dead = lv && stepLive(c, lv)
  if (dead) lose(c, lv, dead)
}

/** The actions that the core asks for since the last call. */
export function takeOutputs(c: Core): Outputs {
  const out = c.out
  c.out = noOutputs()
  return out
}

function noOutputs(): Writable<Outputs> {
  return { dials: [], drops: [], frames: [], settled: [], remarks: [] }
}

/**
 * Returns the changes since the last call. The application hears of them, and messages go out, once the caller has written them and called stored.
 * There is nothing to write if there are no rows and the change is empty. Spec: S-1.3, S-17.1.
 */
export function prepare(c: Core): Written {
  countUnread(c)
  const fresh = takeFresh(c)
  const w: Written = { rows: takeRows(c), durable: fresh.length > 0, fresh, change: c.changed }
  c.changed = noChange()
  return w
}

/** The rows of w are in the store, and durable if it said so. It returns the changes for the application. */
export function stored(c: Core, w: Written): Change {
  for (const o of w.fresh) release(c, o)
  return w.change
}

/** It is unknown whether a write is in the store. The application hears nothing of it, and the client stops. Spec: S-17.2. */
export function storeFailed(c: Core, why: string): void {
  end(c, during('the store of the client failed', failure('store', why)))
}
