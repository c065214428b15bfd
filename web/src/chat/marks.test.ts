import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isEmojiOnly, piecesOf, plainText } from './marks.js'

const none = new Set<string>()

test('marks become pieces', () => {
  assert.deepEqual(piecesOf('a **b** _c_ ~~d~~ `e*` f', none), [
    'a ', { kind: 'bold', of: ['b'] }, ' ', { kind: 'italic', of: ['c'] }, ' ', { kind: 'strike', of: ['d'] }, ' ', { kind: 'code', text: 'e*' }, ' f',
  ])
  assert.deepEqual(piecesOf('look:\n```go\nx := 1\n```\nok', none), ['look:', { kind: 'block', text: 'x := 1' }, 'ok'])
})

test('what only looks like a mark stays as it is', () => {
  for (const text of ['2 ** 3 ** 4', 'snake_case_name', 'a * b', '~/x', '** **', '<b>hi</b>', 'javascript:alert(1)']) assert.deepEqual(piecesOf(text, none).join(''), text, text)
})

test('links end before the signs of the sentence, and only http is one', () => {
  const link = (to: string): object => ({ kind: 'link', text: to, to })
  assert.deepEqual(piecesOf('see https://example.org/a_(b), ok', none), ['see ', link('https://example.org/a_(b)'), ',', ' ok'])
  assert.deepEqual(piecesOf('(https://example.org)', none), ['(', link('https://example.org'), ')'])
  assert.deepEqual(piecesOf('看https://example.org/路径，好', none), ['看', link('https://example.org/路径'), '，好'])
  assert.deepEqual(piecesOf('https://example.org/a_b_c', none), [link('https://example.org/a_b_c')])
  assert.deepEqual(piecesOf('data:text/html,x ftp://x', none), ['data:text/html,x ftp://x'])
})

test('only users whom the message mentions are mentions', () => {
  assert.deepEqual(piecesOf('@bob and @eve, x@bob', new Set(['bob'])), [{ kind: 'mention', user: 'bob' }, ' and ', '@eve', ', x@bob'])
})

test('few emojis alone are large', () => {
  for (const text of ['👍', '👨‍👩‍👧 🎉', '🇨🇳', '❤️', 'ℹ️', '1️⃣', '🏴󠁧󠁢󠁥󠁮󠁧󠁿']) assert.equal(isEmojiOnly(text), true, text)
  for (const text of ['1', '', '👍 ok', '👍👍👍👍', '海燕', 'ℹ', '…']) assert.equal(isEmojiOnly(text), false, text)
})

test('a preview has no marks', () => {
  assert.equal(plainText('**a**\n```js\nb\n``` `c`'), 'a b c')
})
