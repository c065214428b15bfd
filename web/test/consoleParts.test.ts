import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pastOf } from '../console/incidents.js'
import { lonely, tick } from '../console/parts/axis.js'

test('values beside an axis differ from each other', () => {
  for (const [step, values, want] of [[0.05, [0, 0.05, 0.1], ['0.00', '0.05', '0.10']], [0.5, [0, 0.5, 1], ['0.0', '0.5', '1.0']], [1, [0, 1], ['0', '1']], [20, [0, 20], ['0', '20']]] as const) {
    assert.deepEqual(values.map((v) => tick(v, step, { tag: 'en' })), want)
  }
})

test('a sample without a neighbour is a point', () => {
  assert.deepEqual(lonely([1, null, 2, 3, null, 4]), [0, 5])
  assert.deepEqual(lonely([7]), [0])
  assert.deepEqual(lonely([null, null]), [])
})

test('incidents that are over are listed once, for a day', () => {
  const now = 1_800_000_000_000
  const one = { code: 'disk_low', node: 'n1', sinceMs: String(now - 5000), endedMs: String(now - 3000) }
  const known = pastOf([], { past: [one], timeMs: String(now) })
  const again = pastOf(known, { past: [{ ...one, endedMs: String(now - 1000) }], timeMs: String(now) })
  assert.deepEqual(again.map((i) => i.endedMs), [String(now - 1000)])
  assert.equal(pastOf(again, { timeMs: String(now) }), again)
  assert.deepEqual(pastOf(again, { timeMs: String(now + 86_400_000) }), [])
  assert.deepEqual(pastOf(again, { past: [{ ...one, code: 'disk_full', endedMs: String(now + 86_400_000) }], timeMs: String(now + 86_400_000) }).map((i) => i.code), ['disk_full'])
})
