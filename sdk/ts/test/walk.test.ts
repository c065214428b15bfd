import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import * as core from '../src/core/index.js'
import { play } from './conformance.js'
import { walk, walks } from './walk.js'

const file = '../conformance/20-walks.json'

describe('random walks', () => {
  // With PETREL_UPDATE=1 it writes the file: then the Go SDK says whether it is right.
  test('the walks of sdk/conformance are those that this core makes', () => {
    const now = walks(4, 80)
    if (process.env['PETREL_UPDATE'] === '1') writeFileSync(file, now)
    assert.ok(existsSync(file) && readFileSync(file, 'utf8') === now, `${file} is stale: look at why, and run this with PETREL_UPDATE=1`)
  })

  test('the same inputs have the same outputs', () => {
    const count = Number(process.env['PETREL_WALKS'] ?? 5)
    for (let seed = 100; seed < 100 + count; seed++) assert.deepEqual(play(core, walk(seed, 200)), [], `seed ${seed}`)
  })
})
