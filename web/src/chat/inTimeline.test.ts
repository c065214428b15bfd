import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message, Relations } from '@petrel-im/sdk'
import { formatHidden, inTimeline, parseHidden } from './inTimeline.js'

test('hidden seqs are read as they are written, neighbours as one', () => {
  assert.equal(formatHidden([9, 3, 7, 8, 3]), '3,7-9')
  assert.deepEqual([...parseHidden('3,7-9')], [3, 7, 8, 9])
  assert.equal(formatHidden(parseHidden('')), '')
})

test('a text that is no list of seqs hides nothing, and costs no time', () => {
  for (const text of ['x', '1-', '-', '5-3', '1-999999999999999']) assert.deepEqual([...parseHidden(text)], [], text)
})

test('a timeline has no message of a thread alone, and nothing that is cleared or hidden', () => {
  const m = (seq: number, rel?: Partial<Relations>): Message => ({ seq, ...(rel ? { rel: { replyTo: 0, thread: 0, mentions: [], ...rel } } : {}) }) as Message
  const view = { messages: [m(1), m(2), m(3, { thread: 2 }), m(4, { thread: 2, alsoMain: true }), m(5)], isOldest: false, isNewest: true }
  const away = { clearedTo: 1, hidden: new Set([5]) }
  const one = inTimeline(view, away)
  assert.deepEqual([one.messages.map((x) => x.seq), one.isOldest], [[2, 4], true])
  assert.equal(inTimeline(view, away), one)
  const plain = { messages: [m(1), m(2)], isOldest: false, isNewest: true }
  assert.equal(inTimeline(plain, { clearedTo: 0, hidden: new Set() }), plain)
})
