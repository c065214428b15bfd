import { type Conv, slotAt } from './conversation.js'
import type { Core } from './core.js'
import { defined, type Edit, type Entry, type Relations } from './frames.js'
import { isNothing } from './outbox.js'
import { foldQuote } from './quote.js'
import { keep } from './rows.js'

/** Applies an edit or a recall to its target, if the client holds it. Spec: P-5.3, S-7.5. */
export function fold(c: Core, v: Conv, m: Entry): void {
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

/** What a target says that a change rewrites: an entry, or the quote of one. */
type Rewritten = Pick<Entry, 'type' | 'editedBy' | 'recalledBy'> & Partial<Entry>

/** The same object if m changes nothing. */
export function rewritten<T extends Rewritten>(e: T, m: Entry): T {
  return (m.edit ? edited(e, m.edit, m.seq) : recalled(e, m.seq)) as T
}

function recalled(e: Rewritten, seq: number): Rewritten {
  if (seq <= e.recalledBy) return e
  const { text, data, edit, recall, members, profile, inbox, rel, ...rest } = e
  const place = rel && placeIn(rel)
  return { ...rest, type: '', recalledBy: seq, ...defined({ rel: place }) }
}

/**
 * An edit without a body rewrites nothing: another change of the same target followed it, or the
 * user may not read the target. Nothing rewrites a recalled entry. Spec: P-5.6, P-8.3.
 */
function edited(e: Rewritten, by: Edit, seq: number): Rewritten {
  if (e.recalledBy !== 0 || seq <= e.editedBy || by.text === undefined && !by.data) return e
  const { text, data, rel: was, ...rest } = e
  const rel = by.rel ? relOfEdit(was, by.rel) : was
  return { ...rest, type: by.type, editedBy: seq, ...defined({ text: by.text, data: by.data, rel }) }
}

/** What an edit may change of the relations is what the message answers. */
function relOfEdit(was: Relations | undefined, by: Relations): Relations | undefined {
  const { forwardOf, forwarded, ...stays } = was ?? { thread: 0, mentions: [] }
  const rel: Relations = { ...stays, replyTo: by.replyTo }
  return isNothing(rel) ? undefined : rel
}

/**
 * What a rel says of the thread that the message belongs to. It stays when everything else
 * that the message says is taken away. Spec: P-5.12.
 */
function placeIn(rel: Relations): Relations | undefined {
  return rel.thread === 0 ? undefined : { replyTo: 0, thread: rel.thread, mentions: [], ...defined({ alsoMain: rel.alsoMain }) }
}

/** Applies all entries: older ones were put in front of them. What is applied already stays as it is. */
export function refold(c: Core, v: Conv): void {
  for (const { entry } of v.slots) fold(c, v, entry)
}

export function targetOf(m: Entry): number {
  return m.edit?.target ?? m.recall?.target ?? 0
}
