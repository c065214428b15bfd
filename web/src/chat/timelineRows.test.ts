import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message, Outgoing } from '@petrel-im/sdk'
import { arrange, firstUnread, type Row } from './timelineRows.js'
import { besideOf, down, type Held, mostRows, slice, spanAt, up } from './drawnSpan.js'

const noon = new Date(2026, 10, 23, 12).getTime()

function message(seq: number, from: string, more: Partial<Message> = {}): Message {
  return {
    conv: 'g', seq, from, clientMsgId: `m${seq}`, timeMs: noon + seq * 1000, counted: seq, type: '', text: `text ${seq}`, editedBy: 0, recalledBy: 0, threadN: 0, reactions: [], pinned: false,
    delivered: 0, read: 0, ...more,
  }
}

const shape = (rows: readonly Row[]): string[] => rows.map((r) => r.kind === 'message' || r.kind === 'pending' ? `${r.kind} ${r.key}${r.first ? ' first' : ''}${r.last ? ' last' : ''}` : r.kind)

test('messages of one user are a group, until another one writes or ten minutes pass', () => {
  const [day] = arrange([message(1, 'a'), message(2, 'a'), message(3, 'b'), message(4, 'a'), message(5, 'a', { timeMs: noon + 700_000 })], [], 'a')
  assert.deepEqual(shape(day?.rows ?? []), ['message own m1 first', 'message own m2 last', 'message 3 first last', 'message own m4 first last', 'message own m5 first last'])
})

test('a group that goes on beyond what is drawn looks the same before and after that is drawn', () => {
  const all = [1, 2, 3, 4].map((seq) => message(seq, 'a'))
  const [day] = arrange(all.slice(1, 3), [], 'b', undefined, besideOf(all, { from: 2, to: 3 }))
  assert.deepEqual(shape(day?.rows ?? []), ['message 2', 'message 3'])
  const [other] = arrange(all.slice(1, 3), [], 'b', undefined, [message(1, 'c'), undefined])
  assert.deepEqual(shape(other?.rows ?? []), ['message 2 first', 'message 3 last'])
})

test('each day has its rows', () => {
  const days = arrange([message(1, 'a'), message(2, 'a', { timeMs: noon + 86_400_000 })], [], 'a')
  assert.deepEqual(days.map((d) => shape(d.rows)), [['message own m1 first last'], ['message own m2 first last']])
})

test('edits and recalls have no row, and the line of unread messages comes before the first of others', () => {
  const { text: _, ...empty } = message(3, 'b')
  const all = [message(1, 'b'), message(2, 'a'), { ...empty, edit: { target: 1, type: '', text: 'x' } }, message(4, 'b'), message(5, 'b')]
  assert.equal(firstUnread(all, 'a', 1), 4)
  assert.equal(firstUnread(all, 'a', 5), undefined)
  const [day] = arrange(all, [], 'a', 4)
  assert.deepEqual(shape(day?.rows ?? []), ['message 1 first last', 'message own m2 first last', 'unread', 'message 4 first', 'message 5 last'])
})

test('what waits comes last, also if the clock of this device is hours slow or fast', () => {
  for (const composedMs of [noon - 7 * 3600_000, noon + 20 * 3600_000]) {
    const waiting: Outgoing = { id: 'p', composedMs, state: 'sending', conv: 'g', seq: 0, timeMs: 0, draft: { conv: 'g', text: 'x' } }
    const days = arrange([message(1, 'b'), message(2, 'a')], [waiting], 'a')
    assert.deepEqual(days.map((d) => shape(d.rows)), [['message 1 first last', 'message own m2 first', 'pending own p last']])
  }
})

test('a message keeps its key when it gets its seq', () => {
  const waiting: Outgoing = { id: 'm9', composedMs: noon, state: 'sending', conv: 'g', seq: 0, timeMs: 0, draft: { conv: 'g', text: 'x' } }
  const key = (rows: readonly Row[] | undefined): string | undefined => rows?.at(-1)?.key
  assert.equal(key(arrange([], [waiting], 'a')[0]?.rows), key(arrange([message(9, 'a')], [], 'a')[0]?.rows))
})

test('a message has a key of its own, whatever id its sender gave it', () => {
  const all = [message(1, 'a', { clientMsgId: 'x' }), message(2, 'b', { clientMsgId: 'x' }), message(3, 'b', { clientMsgId: 'x' }), message(4, 'b', { clientMsgId: '2' }), message(5, 'b', { clientMsgId: 'unread' })]
  const keys = arrange(all, [], 'a', 5)[0]?.rows.map((r) => r.key) ?? []
  assert.equal(new Set(keys).size, 6, keys.join())
})

test('a span moves over a long conversation, never grows beyond its bound, and leaves nothing out', () => {
  const all = Array.from({ length: 5000 }, (_, i) => message(i + 1, 'a'))
  const held: Held = { messages: all, isNewest: true }
  let span = spanAt(held)
  const seen = new Set(slice(all, span).map((m) => m.seq))
  while (span.from > 1) {
    const before = span
    span = up(held, span)
    assert.ok(span.from < before.from && slice(all, span).length <= mostRows + 1, JSON.stringify(span))
    for (const m of slice(all, span)) seen.add(m.seq)
  }
  assert.equal(seen.size, 5000)
  while (span.to !== Infinity) {
    const before = span
    span = down(held, span)
    assert.ok(span.to > before.to && span.from <= before.to + 1 && slice(all, span).length <= mostRows + 1, JSON.stringify(span))
  }
  assert.equal(slice(all, span).at(-1)?.seq, 5000)
})

test('a span around a message has it', () => {
  const all = Array.from({ length: 1000 }, (_, i) => message(i + 1, 'a'))
  const held: Held = { messages: all, isNewest: true }
  for (const seq of [1, 20, 500, 990, 1000]) assert.ok(slice(all, spanAt(held, seq)).some((m) => m.seq === seq), String(seq))
  assert.equal(spanAt(held, 500).to < Infinity, true)
  assert.equal(spanAt(held, 990).to, Infinity)
})

test('a span ends where a page ends that others follow, and takes them when they come', () => {
  const all = Array.from({ length: 300 }, (_, i) => message(i + 1, 'a'))
  const page: Held = { messages: all.slice(0, 100), isNewest: false }
  const span = down(page, spanAt(page, 90))
  assert.equal(span.to, 100)
  assert.deepEqual(down(page, span), span)
  assert.equal(down({ messages: all, isNewest: true }, span).to, 105)
  assert.equal(down({ messages: all.slice(0, 104), isNewest: true }, span).to, Infinity)
})
