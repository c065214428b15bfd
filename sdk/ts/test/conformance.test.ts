import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as core from '../src/core/index.js'
import { play } from './conformance.js'
import { clauses, vectors } from './vectors.js'

describe('conformance', () => {
  for (const v of vectors) test(v.name, () => assert.deepEqual(play(core, v), []))

  test('each clause that a script can see has a vector', () => {
    assert.ok(clauses.size >= 60, `${clauses.size} clauses were found`)
    const named = new Set(vectors.flatMap((v) => v.clauses))
    assert.deepEqual([...clauses].filter(([clause, client]) => !client && !named.has(clause)).map(([clause]) => clause), [])
    assert.deepEqual([...named].filter((clause) => !clauses.has(clause)), [])
  })
})
