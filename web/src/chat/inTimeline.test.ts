import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Message, Relations } from '@petrel-im/sdk'
import { formatHidden, inTimeline, isAway, parseHidden } from './inTimeline.js'

test('hidden seqs are read as they are written, neighbours as one', () => {
  assert.equal(formatHidden([[9, 9], [3, 3], [7, 8], [3, 3]]), '3,7-9')
  assert.equal(formatHidden([[1, 9], [2, 3]]), '1-9')
  assert.deepEqual(parseHidden('3,7-9'), [[3, 3], [7, 9]])
  assert.equal(formatHidden(parseHidden('')), '')
  const away = { clearedTo: 2, hidden: parseHidden('4,7-999999999999999') }
  assert.deepEqual([2, 3, 4, 5, 7, 8, 1e12].map((seq) => isAway(seq, away)), [true, false, true, false, true, true, true])
})

test('a timeline has no message of a thread alone, and nothing that is cleared or hidden', () => {
  const m = (seq: number, rel?: Partial<Relations>): Message => ({ seq, ...(rel ? { rel: { replyTo: 0, thread: 0, mentions: [], ...rel } } : {}) }) as Message
  const view = { messages: [m(1), m(2), m(3, { thread: 2 }), m(4, { thread: 2, alsoMain: true }), m(5)], isOldest: false, isNewest: true }
  const away = { clearedTo: 1, hidden: [[5, 5]] as const }
  const one = inTimeline(view, away)
  assert.deepEqual([one.messages.map((x) => x.seq), one.isOldest], [[2, 4], true])
  assert.equal(inTimeline(view, away), one)
  const plain = { messages: [m(1), m(2)], isOldest: false, isNewest: true }
  assert.equal(inTimeline(plain, { clearedTo: 0, hidden: [] }), plain)
})
