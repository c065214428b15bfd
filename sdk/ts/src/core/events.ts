import { addConv, heardCounted, repair, touch } from './conversation.js'
import { takeReceipt } from './cursor.js'
import { takeEntry } from './entries.js'
import type { Entry, Events, Hint } from './frames.js'
import { wantSync } from './request.js'
import { takeLossy } from './signals.js'
import { missMention } from './mention.js'
import { takeNotes } from './note.js'
import { takePushed } from './settings.js'
import type { Core, Live } from './state.js'

/** Applies the events of a pushed frame. Spec: P-6.1. */
export function takeEvents(c: Core, lv: Live, ev: Events): void {
  for (const m of ev.messages) {
    if (m.conv === c.meta.inbox) {
      takeInbox(c, lv, m)
      continue
    }
    const v = addConv(c, m.conv)
    takeEntry(c, v, m)
    if (!v.known) wantSync(c)
  }
  for (const h of ev.hints) takeHint(c, h)
  for (const r of ev.receipts) takeReceipt(c, r)
  for (const n of ev.notes) {
    const v = c.convs.get(n.conv)
    if (v) takeNotes(c, v, [n])
  }
  takeLossy(c, ev)
}

/**
 * Applies an entry of the inbox. A change of the list of conversations makes the next step begin a sync, changed
 * settings are taken, and any other entry marks the account as changed. Spec: P-8.5.
 */
function takeInbox(c: Core, lv: Live, m: Entry): void {
  if (m.inbox?.kind === 'list') wantSync(c)
  else if (m.inbox?.kind === 'settings') takePushed(c, lv, m.seq, m.inbox.settings)
  else c.changed.account = true
}

/** Applies a hint: the head of a conversation whose entries are not pushed. Spec: P-6.5. */
export function takeHint(c: Core, h: Hint): void {
  if (h.conv === c.meta.inbox) {
    wantSync(c)
    return
  }
  const v = addConv(c, h.conv)
  if (!v.known) wantSync(c)
  if (h.head > v.head || h.head > v.countedAt) {
    heardCounted(v, h.head, h.counted)
    touch(c, v)
  }
  if (h.mentionSeq > 0) missMention(c, v, h.mentionSeq)
  repair(c, v)
}
