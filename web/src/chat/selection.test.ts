import type { Message } from '@petrel-im/sdk'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chosenOf, mostSelected, textsOf, toggled } from './selection.js'

const message = (seq: number, more: Partial<Message> = {}): Message => ({
  conv: 'c', seq, from: 'ann', clientMsgId: '', timeMs: Date.UTC(2026, 0, seq), counted: 0, type: '', text: `text ${seq}`, editedBy: 0, recalledBy: 0, threadN: 0, reactions: [], pinned: false, delivered: 0, read: 0, ...more,
})

test('a selection is in the order of the messages, and has none that was recalled meanwhile', () => {
  const selection = [message(3), message(1), message(2)].reduce(toggled, new Map())
  assert.deepEqual(chosenOf(selection, [message(2, { recalledBy: 9 })]).map((m) => m.seq), [1, 3])
  assert.deepEqual([...toggled(selection, message(1)).keys()], [3, 2])
  assert.equal(toggled(new Map(), message(1, { recalledBy: 2 })).size, 0)
})

test('a selection has a bound', () => {
  const all = Array.from({ length: mostSelected + 5 }, (_, i) => message(i + 1))
  assert.equal(all.reduce(toggled, new Map()).size, mostSelected)
})

test('several texts have names and times, one has neither', () => {
  const translation = { language: 'en', tag: 'en', t: (key: string) => key } as unknown as Parameters<typeof textsOf>[2]
  assert.equal(textsOf([message(1)], () => 'Ann', translation), 'text 1')
  assert.match(textsOf([message(1), message(2)], () => 'Ann', translation), /^Ann, Jan 1, 2026, .*\ntext 1\n\nAnn, Jan 2, 2026, .*\ntext 2$/)
})
