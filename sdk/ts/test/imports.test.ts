import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const folders = ['src', '../../web/src', '../../web/console', '../../web/embed', '../../web/ui', '../../web/report']

/**
 * The files that a file imports, for types as well. An `import()` does not count: it loads a later part of
 * a page, which may use what is there.
 */
function importsOf(file: string): string[] {
  const all = [...readFileSync(file, 'utf8').matchAll(/^(?:import|export)\b[^']*? from '(\.[^']+)'|^import '(\.[^']+)'/gm)]
  return all.flatMap(([, from = '', effect = '']) => {
    const imported = path.join(path.dirname(file), from || effect)
    return ['.ts', '.tsx'].map((ext) => imported.replace(/\.js$/, ext)).filter((f) => f !== imported && existsSync(f))
  })
}

/** The files that are on a circle, or between two. */
function circles(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const left = new Map(imports)
  for (let before = -1; before !== left.size;) {
    before = left.size
    for (const [file, of] of left) if (!of.some((f) => left.has(f))) left.delete(file)
    const imported = new Set([...left.values()].flat())
    for (const file of left.keys()) if (!imported.has(file)) left.delete(file)
  }
  return [...left.keys()]
}

for (const folder of folders) {
  test(`imports of ${folder} form no circle`, () => {
    const files = readdirSync(folder, { recursive: true }).map((file) => path.join(folder, String(file))).filter((file) => /(?<!\.d)\.tsx?$/.test(file))
    const imports = new Map(files.map((file) => [file, importsOf(file)]))
    assert.deepEqual(circles(imports), [])
  })
}

test('a circle is found', () => {
  const imports = new Map([['a', ['b']], ['b', ['c', 'd']], ['c', ['b']], ['d', []]])
  assert.deepEqual(circles(imports), ['b', 'c'])
})
