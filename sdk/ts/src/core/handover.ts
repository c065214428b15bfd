import { addConv, heardCounted, raiseHead } from './conversation.js'
import { markDelivered, markRead } from './cursor.js'
import type { PersonalValue } from './frames.js'
import { isFailed, remove } from './sendlane.js'
import { adopt, discard, settle } from './outbox.js'
import { takeSetting } from './settings.js'
import { moveTo } from './incomingposition.js'
import {
  convPrefix, metaKey, outgoingKey, outPrefix, positionKey, positionPrefix, put, settingPrefix, storeMeta,
} from './rows.js'
import type { ConvRow, Meta, OutgoingRow, Position, StoredRow } from './schema.js'
import type { Core } from './state.js'

/**
 * Applies rows that another tab has changed: a new message of the outbox, a discarded one, or, if this tab
 * sends, a conversation with a cursor that the other tab may have no time to send. tried: the new messages may
 * have been sent. Spec: S-14.1.
 */
export function mirror(c: Core, rows: readonly StoredRow[], tried: boolean): void {
  for (const { key, value } of rows) {
    const o = c.outbox.sending.get(key.slice(outPrefix.length))
    if (key.startsWith(convPrefix)) {
      if (c.outbox.sends) takeCursors(c, value as ConvRow)
    } else if (value) adopt(c, [value as OutgoingRow], tried)
    else if (o && isFailed(o)) remove(c, o)
  }
}

/**
 * Stops sending: another tab sends the messages from now on. Rows of messages that this tab was about to store are
 * outdated, so they are dropped.
 */
export function follow(c: Core): void {
  c.outbox.sends = false
  for (const [key, value] of c.store.rows) if (value && key.startsWith(outPrefix)) c.store.rows.delete(key)
}

/**
 * Begins to send the messages of all tabs. rows are the rows in the store. The former sender left there cursors
 * and positions that the server does not know, the id of the device, and the outcomes of messages. Any stored
 * message may have been sent meanwhile. A message of this tab whose row is gone was settled without this tab
 * knowing how, so it must not be sent again.
 */
export function lead(c: Core, rows?: readonly StoredRow[]): void {
  c.outbox.sends = true
  if (!rows) return // this tab was not open yet: open loads the rows
  storeMeta(c)
  const stored = new Map(rows.map(({ key, value }) => [key, value]))
  const meta = stored.get(metaKey) as Meta | undefined
  if (meta && c.o.device === undefined) c.meta.device = meta.device
  for (const [key, value] of stored) {
    if (key.startsWith(settingPrefix)) takeSetting(c, value as PersonalValue)
    if (key.startsWith(outPrefix)) adopt(c, [value as OutgoingRow])
    if (key.startsWith(convPrefix)) takeCursors(c, value as ConvRow)
    if (key.startsWith(positionPrefix)) takePosition(c, key.slice(positionPrefix.length), value as Position)
  }
  for (const o of c.outbox.sending.values()) {
    const r = stored.get(outgoingKey(o.id)) as OutgoingRow | undefined
    if (isFailed(o)) {
      if (!r) remove(c, o)
    } else if (o.state !== 'sending') continue
    else if (r) { // it is searched for in the history before its `after` changes
      o.look ||= o.fresh || r.look
      o.tried = true
      o.send = r.send
      if (r.state) settle(c, o, r.state, r.error)
    } else if (o.safe) {
      settle(c, o, 'unknowable')
      discard(c, o.id)
    }
  }
}

/** Takes cursors that another tab has moved but not sent. */
function takeCursors(c: Core, { conv, history, head, counted, countedAt, wantRead, wantDelivered }: ConvRow): void {
  if (history !== c.meta.history || wantRead + wantDelivered === 0) return
  const v = addConv(c, conv)
  raiseHead(v, head)
  heardCounted(v, countedAt, counted)
  markRead(c, conv, wantRead)
  markDelivered(c, conv, wantDelivered)
}

function takePosition(c: Core, conv: string, p: Position): void {
  c.incoming.begun = true
  if (p.history === c.meta.history && p.seq > (c.incoming.positions.get(conv)?.seq ?? 0)) put(c, positionKey(conv), moveTo(c, conv, p).value)
}
