import { floor, touch } from './conversation.js'
import { countOwn } from './cursor.js'
import { reapplyEdits } from './edits.js'
import type { HistoryPage, Range } from './frames.js'
import { takeNotes } from './note.js'
import { arrived } from './outbox.js'
import { takeQuotes } from './quote.js'
import { keep } from './rows.js'
import type { Conv, Core } from './state.js'

/** Returns `before` for the next page of older entries; 0: there are none. Spec: S-7.4. */
export function olderThan(c: Core, conv: string): number {
  const v = c.convs.get(conv)
  return v?.known && v.low > floor(v) ? v.low + 1 : 0
}

/**
 * Applies a page of entries below the seq `before`, or the range that the server could not read. It returns whether
 * there are still older ones.
 */
export function takeOlder(c: Core, conv: string, before: number, page: HistoryPage | Range): boolean {
  const v = c.convs.get(conv)
  if (!v) return false
  if (v.low + 1 === before) { // otherwise two pages were requested at once, and the other one came first
    if ('messages' in page) prepend(c, v, page)
    else passOlderDamage(c, v, before, page)
  }
  return v.low > floor(v)
}

/** Moves low below a range that the server cannot read. */
function passOlderDamage(c: Core, v: Conv, before: number, damage: Range): void {
  if (damage.from >= before) return
  v.damaged = [{ from: damage.from, to: v.low }, ...v.damaged]
  v.low = Math.max(damage.from - 1, floor(v))
  touch(c, v)
}

/** Puts a page of older entries in front. */
function prepend(c: Core, v: Conv, p: HistoryPage): void {
  v.slots = [...p.messages.map((entry) => ({ entry, view: undefined })), ...v.slots]
  takeQuotes(v, p.refs)
  v.paged += p.messages.length
  const first = p.messages[0]
  v.low = p.more && first ? first.seq - 1 : floor(v)
  takeNotes(c, v, p.notes)
  for (const m of p.messages) {
    keep(c, v, m)
    if (m.from === c.meta.user) {
      countOwn(v, m)
      arrived(c, v.id, m)
    }
  }
  reapplyEdits(c, v)
  touch(c, v)
}
