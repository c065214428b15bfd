import { floor, raiseHead, repair, touch } from './conversation.js'
import { append, dropEntries, replace, takeHeld } from './entries.js'
import type { HistoryPage, WireError } from './frames.js'
import { askHistory, isDue, readsFull, retryAt, retryWaitMs } from './request.js'
import { missMention } from './mention.js'
import { takeNotes } from './note.js'
import { passed } from './outbox.js'
import { takeQuotes } from './quote.js'
import type { Conv, Core, Live } from './state.js'

/** Asks for the pages that conversations lack, as many at once as the server allows. */
export function repairAll(c: Core, lv: Live): void {
  for (const [v, asked] of lv.repairs) {
    if (asked) continue
    if (readsFull(lv)) return
    if (v.have >= v.head) lv.repairs.delete(v)
    else if (isDue(c, v.repairAt)) askPage(c, lv, v)
  }
}

function askPage(c: Core, lv: Live, v: Conv): void {
  if (v.head - v.have > c.o.keep) { // entries beyond keep would be dropped again. Spec: S-7.6
    dropEntries(c, v)
    missMention(c, v, v.head)
    v.low = Math.max(v.head - c.o.keep, floor(v))
    skipTo(c, v, v.low)
  }
  lv.repairs.set(v, true)
  askHistory(c, lv, { conv: v.id, after: v.have, limit: c.pageLimit }, (f) => {
    if (!f) return
    lv.repairs.delete(v)
    if (f.kind === 'history') takePage(c, v, f.history)
    else if (f.kind === 'error' && !passDamage(c, v, f.error)) {
      v.repairAt = retryAt(c, f.error)
      if (!f.error.retryable) v.head = v.have // no_conversation, not_member: the entries cannot be read any more
      repair(c, v)
    }
  })
}

/** Moves have to seq, past entries that the client does not get. */
function skipTo(c: Core, v: Conv, seq: number): void {
  v.have = seq
  raiseHead(v, seq)
  passed(c, v)
  touch(c, v)
}

/** Applies a page of missing entries. Spec: P-5.2. */
function takePage(c: Core, v: Conv, p: HistoryPage): void {
  v.firstSeq = Math.max(v.firstSeq, p.firstSeq)
  raiseHead(v, p.head)
  takeNotes(c, v, p.notes)
  for (const m of p.messages) {
    if (m.seq <= v.have) replace(c, v, m)
    else append(c, v, m) // seqs between two entries of a page are those that the user may not read
  }
  takeQuotes(v, p.refs) // after the loop, because an entry that begins a stay drops the former quotes
  if (!p.more) {
    if (v.have < p.head) skipTo(c, v, p.head)
    if (p.head < v.head && p.messages.length === 0) v.repairAt = c.now + retryWaitMs
  }
  takeHeld(c, v)
  repair(c, v)
}

/**
 * Skips the entries above have that the server cannot read, if e names any, and returns whether it does. When an
 * operator has repaired the store of the server, the history id is another one, and the client begins anew.
 * Spec: P-9.5, S-7.7.
 */
function passDamage(c: Core, v: Conv, e: WireError): boolean {
  if (e.code !== 'damaged' || e.damagedTo <= v.have) return false
  v.damaged = [...v.damaged, { from: Math.max(e.damagedFrom, v.have + 1), to: e.damagedTo }]
  skipTo(c, v, e.damagedTo)
  takeHeld(c, v)
  repair(c, v)
  return true
}
