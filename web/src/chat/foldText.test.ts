import assert from 'node:assert/strict'
import { test } from 'node:test'
import { foldOf, piecesUntil } from './foldText.js'

const shown = (text: string): string[] => piecesUntil(text, foldOf(text) ?? 0, new Set()).map((p) => typeof p === 'string' ? p : p.kind)

test('a long text is folded at a line or a word, and a shorter one is shown whole', () => {
  for (const whole of ['', 'a', 'a'.repeat(2200), '\n'.repeat(35), `${'word '.repeat(300)}\n\n`]) assert.equal(foldOf(whole), undefined, whole)
  assert.equal(foldOf('\n'.repeat(36)), 23)
  assert.equal(foldOf('line\n'.repeat(12_000)), 24 * 5 - 1)
  assert.equal(foldOf('海'.repeat(60_000)), 1500)
  assert.equal(foldOf('😀'.repeat(2000)), 1500)
  assert.equal(foldOf(`a${'😀'.repeat(2000)}`), 1499) // no half of a sign
  assert.equal(foldOf('word '.repeat(12_000)), 1499)
  assert.equal(foldOf(`${'word '.repeat(400)}${'\n'.repeat(60)}`), 1499)
})

test('what is folded ends its code, and no address is cut', () => {
  assert.deepEqual(shown(`\`\`\`\n${'x := 1\n'.repeat(100)}\`\`\``), ['block'])
  const link = (n: number): string => `https://example.org/${'b'.repeat(n)}`
  assert.deepEqual(shown(`${'a '.repeat(700)}${link(1000)} ${'a '.repeat(700)}`), [`${'a '.repeat(700)}…`])
  for (const n of [2000, 3000]) assert.deepEqual(shown(`${link(n)} ${'a '.repeat(700)}`), [link(1480), ' …'])
  assert.deepEqual(shown(`see ${link(9)} ${'a '.repeat(2000)}`).slice(0, 2), ['see ', 'link'])
})
