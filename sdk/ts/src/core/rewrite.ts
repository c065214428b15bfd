import { defined, type Edit, type Entry, type Relations } from './frames.js'

/** The fields of a target that an edit or recall rewrites: of an entry, or of its quote. */
type Rewritten = Pick<Entry, 'type' | 'editedBy' | 'recalledBy'> & Partial<Entry>

/** Applies the edit or recall m to e. It returns the same object if m changes nothing. */
export function rewritten<T extends Rewritten>(e: T, m: Entry): T {
  return (m.edit ? edited(e, m.edit, m.seq) : recalled(e, m.seq)) as T
}

function recalled(e: Rewritten, seq: number): Rewritten {
  if (seq <= e.recalledBy) return e
  const { text, data, edit, recall, members, group, inbox, rel, ...rest } = e
  const place = rel && placeIn(rel)
  return { ...rest, type: '', recalledBy: seq, ...defined({ rel: place }) }
}

/**
 * Applies an edit. An edit without a body changes nothing: a newer edit of the target replaced it, or the user
 * may not read the target. A recalled entry is never changed. Spec: P-5.6, P-8.3.
 */
function edited(e: Rewritten, by: Edit, seq: number): Rewritten {
  if (e.recalledBy !== 0 || seq <= e.editedBy || by.text === undefined && !by.data) return e
  const { text, data, rel: was, ...rest } = e
  const rel = by.rel ? relOfEdit(was, by.rel) : was
  return { ...rest, type: by.type, editedBy: seq, ...defined({ text: by.text, data: by.data, rel }) }
}

/** Returns the relations after an edit. An edit can only change replyTo. */
function relOfEdit(was: Relations | undefined, by: Relations): Relations | undefined {
  const { forwardOf, forwarded, ...stays } = was ?? { thread: 0, mentions: [] }
  const rel: Relations = { ...stays, replyTo: by.replyTo }
  return isNothing(rel) ? undefined : rel
}

/**
 * Returns the part of a rel that names the thread of the message. It stays when a message is recalled. Spec: P-5.12.
 */
function placeIn(rel: Relations): Relations | undefined {
  return rel.thread === 0 ? undefined : { replyTo: 0, thread: rel.thread, mentions: [], ...defined({ alsoMain: rel.alsoMain }) }
}

export function targetOf(m: Entry): number {
  return m.edit?.target ?? m.recall?.target ?? 0
}

export function mentions(r: Relations): boolean {
  return r.mentions.length > 0 || r.mentionAll === true
}

/** Whether all relations are empty. */
export function isNothing(r: Relations): boolean {
  return r.replyTo === 0 && r.thread === 0 && !r.alsoMain && !mentions(r) && !r.silent && !r.forwardOf && !r.forwarded
}
