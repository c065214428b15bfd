import { move, readTo } from './cursor.js'
import { ask, isDue, offers, retryAt } from './request.js'
import { takeMentions } from './mention.js'
import { storeConv } from './rows.js'
import type { Conv, Core, Live } from './state.js'

const moveEveryMs = 1000 // between two moves of one conversation. Spec: P-8.6
const maxMoves = 3 // cursor requests under way at once

/** Sends the cursors that are due. */
export function moveAll(c: Core, lv: Live): void {
  if (!offers(lv, 'cursor') || !lv.synced) return
  for (const v of c.moves) {
    if (lv.moving.size >= maxMoves) return
    if (!wantsMove(v)) c.moves.delete(v)
    else if (!lv.moving.has(v) && isDue(c, v.cursors.moveAt)) {
      c.moves.delete(v)
      v.cursors.moveAt = c.now + moveEveryMs
      askMove(c, lv, v)
    }
  }
}

/** Whether a conversation has a cursor to send, or mentions to ask for. */
function wantsMove(v: Conv): boolean {
  return v.cursors.wantRead !== 0 || v.cursors.wantDelivered !== 0 || v.mentions.asked
}

function askMove(c: Core, lv: Live, v: Conv): void {
  lv.moving.add(v)
  const { asked } = v.mentions
  v.mentions.asked = false
  const q = { conv: v.id, delivered: v.cursors.wantDelivered, read: v.cursors.wantRead }
  ask(c, lv, { cursor: q }, (f) => {
    lv.moving.delete(v)
    const retry = f?.kind === 'error' && f.error.retryable
    if (f?.kind === 'cursor' || f?.kind === 'error' && !retry) { // the move is stored, or refused for good
      if (v.cursors.wantRead <= q.read) v.cursors.wantRead = 0
      if (v.cursors.wantDelivered <= q.delivered) v.cursors.wantDelivered = 0
      storeConv(c, v)
    } else if (f?.kind === 'error') v.cursors.moveAt = retryAt(c, f.error)
    if (f?.kind === 'cursor') {
      // A move by another device may have had no receipt for a session that asked at the same time, so the
      // answer counts. After an own move the counted of the cursor may be missing.
      if (f.cursor.read > v.cursors.read || q.read > 0 && f.cursor.read === v.cursors.read) readTo(c, v, f.cursor.read)
      if (f.cursor.head > 0) takeMentions(c, v, f.cursor.mentions, f.cursor.head)
    }
    if (!f || retry) v.mentions.asked ||= asked
    if (wantsMove(v)) move(c, v)
  })
}
