import assert from 'node:assert/strict'
import { test } from 'node:test'
import { walks } from './walks.js'

// `make walks` has long ones.
test('walks end equal to the log of the server', { timeout: 300_000 }, async () => {
  assert.deepEqual(await walks(1, 3, 80), [])
})
