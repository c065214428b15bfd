import type { Message, Outgoing } from '@petrel-im/sdk'
import { dayOf } from '../i18n/dates.js'

const groupMs = 10 * 60_000 // a longer pause between two messages of a user begins a new group

interface Grouped {
  readonly first: boolean // of its group
  readonly last: boolean
}

/** What a line of the timeline shows. The key is that of the message for as long as it lives, also when it gets its seq. */
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

/** Whether an entry has a place of its own in the timeline. Edits and recalls show in their targets. */
export function isShown(m: Message): boolean {
  return !m.edit && !m.recall && !m.withheld && !m.inbox
}

/** Whether an entry is something that somebody has said, or had. */
export function isSaid(m: Message): boolean {
  return !m.members && !m.profile && !m.lost
}

export function keyOf(m: Message): string {
  return m.clientMsgId || String(m.seq)
}

interface Line {
  row: Row
  readonly from: string // '': it belongs to no group
  readonly ms: number
}

/**
 * Arranges entries and what is on its way into days and groups. The line of unread messages
 * comes before the first message of others above unreadAfter; undefined: there is none.
 */
export function arrange(messages: readonly Message[], pending: readonly Outgoing[], me: string, unreadAfter?: number): readonly Day[] {
  const lines: Line[] = []
  let divided = unreadAfter === undefined
  for (const m of messages) {
    if (!isShown(m)) continue
    if (!divided && m.seq > (unreadAfter ?? 0) && m.from !== me) {
      divided = true
      lines.push({ row: { kind: 'unread', key: 'unread' }, from: '', ms: m.timeMs })
    }
    if (isSaid(m)) lines.push({ row: { kind: 'message', key: keyOf(m), message: m, first: true, last: true }, from: m.from, ms: m.timeMs })
    else lines.push({ row: { kind: 'service', key: keyOf(m), message: m }, from: '', ms: m.timeMs })
  }
  const newest = lines.at(-1)?.ms ?? 0
  for (const o of pending) {
    // The clock of this device may be wrong: what waits comes last, whatever it says.
    if (isPendingShown(o)) lines.push({ row: { kind: 'pending', key: o.id, outgoing: o, first: true, last: true }, from: me, ms: Math.max(newest, lines.length > 0 ? newest : o.composedMs) })
  }
  group(lines)
  return byDay(lines)
}

/** An edit and a recall that wait show in their targets; those that failed show by themselves. */
function isPendingShown(o: Outgoing): boolean {
  return !(o.draft.edit || o.draft.recall) || o.state === 'rejected' || o.state === 'unknowable'
}

function group(lines: Line[]): void {
  for (const [i, line] of lines.entries()) {
    const { row } = line
    if (row.kind !== 'message' && row.kind !== 'pending') continue
    const first = !together(lines[i - 1], line)
    const last = !together(line, lines[i + 1])
    if (!first || !last) line.row = { ...row, first, last }
  }
}

function together(a: Line | undefined, b: Line | undefined): boolean {
  return a !== undefined && b !== undefined && a.from !== '' && a.from === b.from && b.ms - a.ms <= groupMs && dayOf(a.ms) === dayOf(b.ms)
}

function byDay(lines: readonly Line[]): readonly Day[] {
  const days: { key: string; ms: number; rows: Row[] }[] = []
  for (const { row, ms } of lines) {
    const key = String(dayOf(ms))
    const day = days.at(-1)
    if (day?.key === key) day.rows.push(row)
    else days.push({ key: days.some((d) => d.key === key) ? `${key}-${days.length}` : key, ms, rows: [row] })
  }
  return days
}
