import { slotAt } from './conversation.js'
import type { Entry } from './frames.js'
import { foldQuote } from './quote.js'
import { rewritten, targetOf } from './rewrite.js'
import { keep } from './rows.js'
import type { Conv, Core } from './state.js'

/** Applies an edit or a recall to its target, if the client holds it. Spec: P-5.3, S-7.5. */
export function applyEdit(c: Core, v: Conv, m: Entry): void {
  const seq = targetOf(m)
  if (seq === 0) return
  foldQuote(v, m)
  const slot = slotAt(v, seq)
  if (!slot) return
  const n = rewritten(slot.entry, m)
  if (n === slot.entry) return
  slot.entry = n
  keep(c, v, n)
}

/**
 * Applies all held edits and recalls again, because older entries were added. An edit that was applied already
 * changes nothing.
 */
export function reapplyEdits(c: Core, v: Conv): void {
  for (const { entry } of v.slots) applyEdit(c, v, entry)
}
