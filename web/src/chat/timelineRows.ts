import type { Message, Outgoing } from '@petrel-im/sdk'
import { dayOf } from '../i18n/dates.js'

const groupMs = 10 * 60_000 // a longer pause between two messages of a user begins a new group

interface Grouped {
  readonly first: boolean // the first of its group
  readonly last: boolean
}

/** A row of the timeline. A message keeps its key for good, even when it is stored and gets its seq. */
export type Row =
  | ({ readonly kind: 'message'; readonly key: string; readonly message: Message } & Grouped)
  | ({ readonly kind: 'pending'; readonly key: string; readonly outgoing: Outgoing } & Grouped)
  | { readonly kind: 'service'; readonly key: string; readonly message: Message }
  | { readonly kind: 'unread'; readonly key: string }

/** The rows of one day. */
export interface Day {
  readonly key: string
  readonly ms: number
  readonly rows: readonly Row[]
}

/** Whether an entry has a row of its own in the timeline. Edits and recalls show in their targets. */
export function isShown(m: Message): boolean {
  return !m.edit && !m.recall && !m.withheld && !m.inbox
}

/** Whether an entry is a message that somebody has written. A recalled one still is. */
export function isSaid(m: Message): boolean {
  return !m.members && !m.group && !m.lost
}

/**
 * Returns the key of an entry in its conversation. An own message has the key that it had in the outbox. For a
 * message of others the key is the seq, because its sender chose the client message id, perhaps that of another
 * message.
 */
export function keyOf(m: Message, me: string): string {
  return m.from === me && m.clientMsgId ? ownKey(m.clientMsgId) : String(m.seq)
}

export function ownKey(id: string): string {
  return `own ${id}`
}

/** Returns a message with the pending edit of it applied, if there is one. */
export function asEdited(m: Message, pending: readonly Outgoing[]): Message {
  const text = pending.findLast((o) => (o.state === 'sending' || o.state === 'sent') && o.draft.edit?.target === m.seq)?.draft.edit?.text
  return text === undefined || m.recalledBy > 0 ? m : { ...m, text }
}

interface Line {
  row: Row
  readonly from: string // '': it belongs to no group
  readonly ms: number
  readonly day: number
}

/**
 * Returns the seq of the first message of others above unreadAfter, which the line of unread messages stands
 * before; undefined: there is none.
 */
export function firstUnread(messages: readonly Message[], me: string, unreadAfter: number): number | undefined {
  return messages.find((m) => m.seq > unreadAfter && m.from !== me && isShown(m))?.seq
}

/**
 * Arranges entries and pending messages into days and groups, with a line before the message unreadAt. `beside` are
 * the entry just before and the one just after the drawn ones. A group that goes on there is drawn as an unfinished
 * group. So no row changes its height when these entries are drawn too.
 */
export function arrange(messages: readonly Message[], pending: readonly Outgoing[], me: string, unreadAt?: number, beside: readonly (Message | undefined)[] = []): readonly Day[] {
  const lines: Line[] = []
  for (const m of messages) {
    if (!isShown(m)) continue
    const ms = m.timeMs
    const day = dayOf(ms)
    if (m.seq === unreadAt) lines.push({ row: unreadRow, from: '', ms, day })
    if (isSaid(m)) lines.push({ row: { kind: 'message', key: keyOf(m, me), message: m, first: true, last: true }, from: m.from, ms, day })
    else lines.push({ row: { kind: 'service', key: keyOf(m, me), message: m }, from: '', ms, day })
  }
  const newest = lines.at(-1)?.ms ?? 0
  for (const o of pending) {
    // The clock of this device may be wrong, so pending messages come last in any case.
    if (!isPendingShown(o)) continue
    const ms = Math.max(newest, lines.length > 0 ? newest : o.composedMs)
    lines.push({ row: { kind: 'pending', key: ownKey(o.id), outgoing: o, first: true, last: true }, from: me, ms, day: dayOf(ms) })
  }
  group(lines, lineBeside(beside[0]), lineBeside(beside[1]))
  return byDay(lines)
}

const unreadRow: Row = { kind: 'unread', key: 'unread' }

/** Whether a pending message has a row. A waiting edit or recall shows in its target; a failed one has a row. */
function isPendingShown(o: Outgoing): boolean {
  return !(o.draft.edit || o.draft.recall) || o.state === 'rejected' || o.state === 'unknowable'
}

function lineBeside(m: Message | undefined): Line | undefined {
  return m && isSaid(m) ? { row: unreadRow, from: m.from, ms: m.timeMs, day: dayOf(m.timeMs) } : undefined
}

function group(lines: Line[], before: Line | undefined, after: Line | undefined): void {
  for (const [i, line] of lines.entries()) {
    const { row } = line
    if (row.kind !== 'message' && row.kind !== 'pending') continue
    const first = !together(i === 0 ? before : lines[i - 1], line)
    const last = !together(line, i === lines.length - 1 ? after : lines[i + 1])
    line.row = same({ ...row, first, last })
  }
}

const rows = new WeakMap<Message | Outgoing, Row>() // the last row of each message

/** Returns the former row if it is equal, so that it is not drawn again. */
function same(row: Extract<Row, { readonly first: boolean }>): Row {
  const of = row.kind === 'message' ? row.message : row.outgoing
  const old = rows.get(of)
  if (old?.kind === row.kind && old.first === row.first && old.last === row.last) return old
  rows.set(of, row)
  return row
}

function together(a: Line | undefined, b: Line | undefined): boolean {
  return a !== undefined && b !== undefined && a.from !== '' && a.from === b.from && b.ms - a.ms <= groupMs && a.day === b.day
}

function byDay(lines: readonly Line[]): readonly Day[] {
  const days: { key: string; ms: number; rows: Row[] }[] = []
  let of = 0
  for (const { row, ms, day } of lines) {
    const last = days.at(-1)
    if (last && of === day) last.rows.push(row)
    else {
      const key = String(day)
      days.push({ key: days.some((d) => d.key === key) ? `${key}-${days.length}` : key, ms, rows: [row] })
    }
    of = day
  }
  return days
}
