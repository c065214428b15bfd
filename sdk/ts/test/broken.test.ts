import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, test } from 'node:test'
import { context } from 'esbuild'
import { broken, type Broken } from './broken.js'
import { type Border, play } from './conformance.js'
import { planted } from './planted.js'
import { clauses, vectors } from './vectors.js'

/** Breaks of clauses, and planted faults that a script can see. */
const all: readonly (Omit<Broken, 'clause'> & { readonly clause?: string; readonly what?: string })[] = [
  ...broken, ...planted.flatMap(({ file, vector, ...p }) => vector === undefined ? [] : [{ ...p, file: basename(file), vector }]),
]

/** The text of the file with the break, or why it cannot be made. */
function patched(b: Omit<Broken, 'clause'>): string {
  const source = readFileSync(`src/core/${b.file}`, 'utf8')
  const quoted = b.old.split('\n').map((line) => line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('\\n\\s*')
  const found = [...source.matchAll(new RegExp(quoted, 'g'))]
  assert.equal(found.length, 1, `${b.file} has ${found.length} times: ${b.old}`)
  return source.replace(new RegExp(quoted), () => b.new)
}

describe('broken', () => {
  test('each clause that has vectors is broken', () => {
    assert.deepEqual([...new Set(broken.map((b) => b.clause))], [...clauses].filter(([, client]) => !client).map(([clause]) => clause))
  })

  test('a vector notices each break', async (t) => {
    let now: Omit<Broken, 'clause'> | undefined
    const core = await context({
      entryPoints: ['src/core/index.ts'], bundle: true, format: 'esm', target: 'es2022', write: false, logLevel: 'silent',
      plugins: [{ name: 'break', setup: (b) => b.onLoad({ filter: /src\/core\/\w+\.ts$/ }, ({ path }) => (now && basename(path) === now.file ? { contents: patched(now), loader: 'ts' } : undefined)) }],
    })
    for (const b of all) {
      await t.test(`${b.clause ?? b.what}: ${b.vector}`, async () => {
        now = b
        const { outputFiles } = await core.rebuild()
        const border = await import(`data:text/javascript;base64,${Buffer.from(outputFiles?.[0]?.contents ?? []).toString('base64')}`) as Border
        const vector = vectors.find((v) => v.name === b.vector)
        assert.ok(vector && (b.clause === undefined || vector.clauses.includes(b.clause)), `the vector is not about ${b.clause}`)
        assert.notDeepEqual(play(border, vector), [], 'no step failed')
      })
    }
    await core.dispose()
  })
})
