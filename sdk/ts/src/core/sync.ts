import { addConv, floor, heardCounted, hold, repair, repairAny, retitle, show, touch } from './conversation.js'
import { mergeCursors } from './cursor.js'
import { dropEntries, takeEntry, takeHeld } from './entries.js'
import type { ConvState, Entry, SyncPage } from './frames.js'
import { join, lanesByAge, wakeLane } from './sendlane.js'
import { ask, isDue, offers, retryAt } from './request.js'
import { takeMentions } from './mention.js'
import { takeNotes } from './note.js'
import { forgetTargets, passed } from './outbox.js'
import { dropSettings, takePersonal } from './settings.js'
import { takeQuotes } from './quote.js'
import { dropConv, storeMeta } from './rows.js'
import type { Conv, Core, Live } from './state.js'

/** Begins the first sync of a connection. */
export function firstSync(c: Core, lv: Live): void {
  for (const v of c.convs.values()) v.before = v.have
  startSync(c, lv)
}

/**
 * Begins a sync: asks which conversations have changed. wantSync during a sync makes another one follow.
 * Spec: P-6.2, P-6.4, S-6.1.
 */
function startSync(c: Core, lv: Live): void {
  lv.syncing = true
  lv.syncAt = Infinity
  lv.newest = offers(lv, 'newest') ? c.o.newest : 0
  askSync(c, lv)
}

/**
 * Begins a sync if one is due. If the server has gone back to an earlier state, it first drops what the client holds.
 */
export function stepSync(c: Core, lv: Live): void {
  if (lv.syncing) return
  if (lv.back) { // P-6.8
    lv.back = false
    lv.syncAt = 0
    c.out.remarks.push('the server went back to an earlier state')
    forget(c)
  }
  if (isDue(c, lv.syncAt)) startSync(c, lv)
}

function askSync(c: Core, lv: Live): void {
  ask(c, lv, { sync: { token: c.meta.token, newest: lv.newest } }, (f) => {
    if (f?.kind === 'sync') takeSync(c, lv, f.sync)
    else if (f?.kind === 'error' && f.error.code === 'bad_token' && c.meta.token !== '') {
      c.meta.token = ''
      storeMeta(c)
      askSync(c, lv)
    } else if (f?.kind === 'error') {
      lv.syncing = false
      lv.syncAt = retryAt(c, f.error)
    }
  })
}

/** Applies one page. Its token is stored together with its content. Spec: S-6.2. */
function takeSync(c: Core, lv: Live, p: SyncPage): void {
  takePersonal(c, lv, p)
  for (const s of p.convs) takeState(c, lv, s)
  c.meta.token = p.token
  storeMeta(c)
  if (p.more) {
    askSync(c, lv)
    return
  }
  lv.syncing = false
  c.meta.synced = true
  repairAny(c) // includes conversations whose repair an earlier connection did not finish
  if (lv.synced) return
  lv.synced = true
  c.status = { ...c.status, synced: true }
  c.changed.status = true
  for (const l of lanesByAge(c)) wakeLane(c, l)
}

/** Applies the state of one conversation from a sync. */
function takeState(c: Core, lv: Live, s: ConvState): void {
  if (s.damaged) return // the server cannot read it, so the held state stays. Spec: P-9.5
  const v = addConv(c, s.conv)
  if (s.head < v.before && !s.left) lv.back = true // a head never goes back
  merge(v, s)
  if (v.peer !== '') {
    c.direct.set(v.peer, v.id)
    join(c, v)
  }
  if (!s.mentionsMissing && offers(lv, 'mentions')) takeMentions(c, v, s.mentions, s.head)
  touch(c, v)
  c.changed.list = true
  if (v.known) extend(c, v, s.newest)
  else meet(c, v, s)
  takeQuotes(v, s.refs)
  takeNotes(c, v, s.notes)
  repair(c, v)
}

/** Merges the fields of a conversation from a sync. Spec: P-6.2. */
function merge(v: Conv, s: ConvState): void {
  v.kind = s.kind
  v.peer = s.peer
  v.peerProfile = s.peerProfile
  v.role = s.role
  v.left = s.left
  retitle(v, s.head, s.title)
  v.joined = s.joined
  v.firstSeq = s.firstSeq
  v.head = s.left ? Math.max(s.head, v.have) : Math.max(v.head, s.head)
  heardCounted(v, s.head, s.counted)
  mergeCursors(v, s)
}

/**
 * Sets where a conversation begins for this client. At the first sync it begins at the newest entries. Later a
 * conversation is new to the user, so it begins at the first readable entry; at most keep entries are loaded.
 * Spec: P-6.7, S-7.4.
 */
function meet(c: Core, v: Conv, s: ConvState): void {
  v.known = true
  const below = floor(v)
  let from = c.meta.synced ? Math.max(below, v.head - c.o.keep) : Math.max(below, s.head - c.o.newest)
  const first = s.newest[0]
  if (first) from = Math.min(from, first.seq - 1)
  for (const seq of v.held.keys()) from = Math.min(from, seq - 1) // an entry that was pushed before the sync
  v.low = from
  v.have = from
  extend(c, v, s.newest)
  passed(c, v)
}

/** Takes the newest entries from a sync. If they leave a gap, they are held back behind it. */
function extend(c: Core, v: Conv, newest: readonly Entry[]): void {
  const first = newest[0]
  if (first && first.seq > v.have + 1) {
    for (const m of newest) hold(v, m)
    return
  }
  for (const m of newest) takeEntry(c, v, m)
  takeHeld(c, v)
}

/** Drops what belongs to the former history id. Messages to be sent stay. Spec: P-3.4, P-6.6, S-15.1. */
export function forget(c: Core): void {
  for (const v of c.convs.values()) {
    dropEntries(c, v)
    show(c, v)
    dropConv(c, v)
  }
  c.convs.clear()
  c.direct.clear()
  c.moves.clear()
  dropSettings(c)
  c.meta.token = ''
  c.meta.synced = false
  storeMeta(c)
  c.changed.list = true
  c.asking.clear()
  forgetTargets(c)
}
