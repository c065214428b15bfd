import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lengthOf } from './textLength.js'

test('characters are counted, and those beyond the bytes of a message', () => {
  assert.deepEqual(lengthOf('', 10), { characters: 0, over: 0 })
  for (const [c, bytes] of [['a', 1], ['é', 2], ['海', 3], ['😀', 4]] as const) {
    assert.equal(new TextEncoder().encode(c).length, bytes)
    assert.deepEqual(lengthOf(c.repeat(1000), 1000 * bytes), { characters: 1000, over: 0 }, c)
    assert.deepEqual(lengthOf(c.repeat(1000), 990 * bytes), { characters: 1000, over: 10 }, c)
    assert.deepEqual(lengthOf(c.repeat(1000), 0), { characters: 1000, over: 0 }, c)
  }
})
