// Texts of others, of any length and kind, are taken apart in time that grows with their length.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { piecesOf, stepsOf } from './markup.js'
import { mentionedIn, namesIn } from './useMembers.js'
import { Reading } from './textReader.js'

const length = 60_000 // code units; the server takes bodies of 48 KiB
const shorter = 2_000 // each of 9,025 pairs: steps that grow with the square would be hundreds a sign here too
const mostSteps = 40 // a sign
const areTimesJudged = 'PETREL_TIMES' in process.env // in `make long`
const mostMs = 20 // for one message
const users = new Set(['a', 'bob', '*'])
const repeated = (part: string, n: number): string => part.repeat(Math.ceil(n / part.length)).slice(0, n)
const ascii = Array.from({ length: 128 }, (_, i) => String.fromCharCode(i))
const seen = ascii.filter((c) => c > ' ' && c <= '~').concat(' ')
const marks = [...'*_~`@.:/()hw-\n a']
const meant = [...'*_~`@.:/()<,!-+%\n a1Z', '海', '）', '😀', 'é', '\u2028']

function isLinear(text: string, what: string): void {
  const steps = stepsOf(text, users)
  assert.ok(steps <= mostSteps * (text.length + 1), `${steps} steps for ${text.length} signs: ${JSON.stringify(what)}`)
  if (!areTimesJudged || text.length < length) return
  const ms = Array.from({ length: 5 }, () => {
    const begun = performance.now()
    piecesOf(text, users)
    return performance.now() - begun
  }).sort((a, b) => a - b)[2] ?? 0
  slowest = ms > slowest.ms ? { ms, what } : slowest
  assert.ok(ms <= mostMs, `${ms} ms: ${JSON.stringify(what)}`)
}
let slowest = { ms: 0, what: '' }

test('a message of one sign, or of two in turn, costs steps that grow with its length', (t) => {
  for (const n of [shorter, length]) for (const c of [...ascii, ...meant]) isLinear(repeated(c, n), c) // a parser that is not linear fails at the short ones already
  for (const a of marks) for (const b of meant) isLinear(repeated(a + b, length), a + b)
  for (const a of seen) for (const b of seen) isLinear(repeated(a + b, areTimesJudged ? length : shorter), a + b)
  if (areTimesJudged) t.diagnostic(`the slowest takes ${slowest.ms.toFixed(1)} ms: ${JSON.stringify(slowest.what)}`)
})

test('marks that never close, links that never end and what else has held a page costs steps that grow with its length', () => {
  const parts = ['**a ', '~~a ', '_a ', '_a _', '**a\n', '**a ~~b _c ', '```', '```a', '``', '`a\n', '@a.', '@a-', 'a@a.', 'a_', 'a_@b.c', 'http://', 'http://x', 'www.', 'www.a.', ' www.a', 'a@', 'a@b.', 'a@b-', '_a _a__', '(http://x)', 'http://x)', '😀_', '_海_']
  for (const part of parts) {
    isLinear(repeated(part, length), part)
    isLinear(`${repeated(part, length)}**~~_\`\`\`)`, `${part} … and all ends`)
    for (const first of ['http://x/', 'www.a.b/', 'a@b.', '**', '```', '`', '@a', '_']) isLinear(first + repeated(part, length), `${first}, then ${part}`)
  }
  for (const sign of seen) isLinear(`http://x/${sign.repeat(49_000)}`, `a link and ${sign}`)
})

test('random mixtures of signs cost steps that grow with their length', () => {
  const parts = [...meant, '**', '~~', '```', 'http://', 'https://x.org', 'www.', '@bob', 'a@b.org', 'com', '\n']
  let seed = 7
  const random = (n: number): number => {
    seed = Math.imul(seed ^ seed >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0
    return ((seed ^ seed >>> 13) >>> 0) % n
  }
  for (let i = 0; i < 200; i++) {
    const some = Array.from({ length: 1 + random(6) }, () => parts[random(parts.length)] ?? '')
    let text = ''
    while (text.length < length / 4) text += some[random(some.length)] ?? ''
    isLinear(text, some.join('|'))
  }
})

test('the names in a text are found in steps that grow with its length', () => {
  const members = ['a.b', 'c', 'd'].map((user) => ({ user, role: 'member' }) as const)
  assert.deepEqual(mentionedIn('@a.b.- x@c (@d) @@c @all...', members, 'me'), { mentions: ['a.b', 'd'], all: true })
  for (const part of ['.-', '@', '@a', '@a.', '@.', 'a@', '@-@']) {
    const r = new Reading(`@${repeated(part, length)}a`)
    namesIn(r)
    assert.ok(r.steps <= mostSteps * r.length, `${r.steps} steps: ${part}`)
  }
})
