import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isEmojiOnly, piecesOf, plainText } from './markup.js'

const none = new Set<string>()

test('marks become pieces', () => {
  assert.deepEqual(piecesOf('a **b** _c_ ~~d~~ `e*` f', none), [
    'a ', { kind: 'bold', of: ['b'] }, ' ', { kind: 'italic', of: ['c'] }, ' ', { kind: 'strike', of: ['d'] }, ' ', { kind: 'code', text: 'e*' }, ' f',
  ])
  assert.deepEqual(piecesOf('```js\n```', none), [{ kind: 'block', text: 'js' }])
  assert.deepEqual(piecesOf('look:\n```go\nx := 1\n```\nok', none), ['look:', { kind: 'block', text: 'x := 1' }, 'ok'])
})

test('a mark ends at the first sign that ends it, and stands in others, but not in itself', () => {
  assert.deepEqual(piecesOf('**a** and **b**', none), [{ kind: 'bold', of: ['a'] }, ' and ', { kind: 'bold', of: ['b'] }])
  assert.deepEqual(piecesOf('**~~_a_ b~~**', none), [{ kind: 'bold', of: [{ kind: 'strike', of: [{ kind: 'italic', of: ['a'] }, ' b'] }] }])
  assert.deepEqual(piecesOf('_a _b__', none), [{ kind: 'italic', of: ['a _b_'] }])
  assert.deepEqual(piecesOf('**a\nb** ~~c\u2028d~~', none).join(''), '**a\nb** ~~c\u2028d~~')
})

test('what only looks like a mark stays as it is', () => {
  for (const text of ['2 ** 3 ** 4', 'snake_case_name', 'a * b', '~/x', '** **', '<b>hi</b>', 'javascript:alert(1)']) assert.deepEqual(piecesOf(text, none).join(''), text, text)
})

test('what people call an address is a link too: that of a page without its beginning, and that of mail', () => {
  const link = (text: string, to: string): object => ({ kind: 'link', text, to })
  assert.deepEqual(piecesOf('see www.debian.org/x, ok', none), ['see ', link('www.debian.org/x', 'https://www.debian.org/x'), ', ok'])
  assert.deepEqual(piecesOf('Www.debian.org', none), [link('Www.debian.org', 'https://Www.debian.org')])
  assert.deepEqual(piecesOf('write to anna.lee+x@mail.example.org.', none), ['write to ', link('anna.lee+x@mail.example.org', 'mailto:anna.lee+x@mail.example.org'), '.'])
  assert.deepEqual(piecesOf('写给a@b.cn，好', none), ['写给', link('a@b.cn', 'mailto:a@b.cn'), '，好'])
  assert.deepEqual(piecesOf('mail:http.a@b.org', none), ['mail:', link('http.a@b.org', 'mailto:http.a@b.org')])
  assert.deepEqual(piecesOf('https://a@b.org/www.c.org', none), [link('https://a@b.org/www.c.org', 'https://a@b.org/www.c.org')])
  assert.deepEqual(piecesOf('@anna@b.org hi', new Set(['anna@b.org'])), [{ kind: 'mention', user: 'anna@b.org' }, ' hi'])
  for (const text of ['www.', 'www.debian', 'a@b', 'x.www.debian.org', 'ftp://a@b.org']) assert.deepEqual(piecesOf(text, none), [text])
})

test('links end before the signs of the sentence, and no other scheme is one', () => {
  const link = (to: string): object => ({ kind: 'link', text: to, to })
  assert.deepEqual(piecesOf('see https://example.org/a_(b), ok', none), ['see ', link('https://example.org/a_(b)'), ', ok'])
  assert.deepEqual(piecesOf('(https://example.org)', none), ['(', link('https://example.org'), ')'])
  assert.deepEqual(piecesOf('看https://example.org/路径，好', none), ['看', link('https://example.org/路径'), '，好'])
  assert.deepEqual(piecesOf('https://example.org/a_b_c', none), [link('https://example.org/a_b_c')])
  assert.deepEqual(piecesOf('data:text/html,x ftp://x', none), ['data:text/html,x ftp://x'])
  assert.deepEqual(piecesOf('hxxp://example.org', none), ['hxxp://example.org'])
  const long = `https://example.org/${'a'.repeat(2048)}`
  assert.deepEqual(piecesOf(long, none), [long])
})

test('only users whom the message mentions are mentions', () => {
  assert.deepEqual(piecesOf('@bob and @eve, x@bob', new Set(['bob'])), [{ kind: 'mention', user: 'bob' }, ' and @eve, x@bob'])
})

test('few emojis alone are large', () => {
  for (const text of ['👍', '👨‍👩‍👧 🎉', '🇨🇳', '❤️', 'ℹ️', '1️⃣', '🏴󠁧󠁢󠁥󠁮󠁧󠁿', '⛵️', '👍🏽👍🏽👍🏽', '👁️‍🗨️']) assert.equal(isEmojiOnly(text), true, text)
  for (const text of ['1', '', '👍 ok', '👍👍👍👍', '海燕', 'ℹ', '…', '🇨', '🇨🇳🇨🇳🇨🇳🇨🇳']) assert.equal(isEmojiOnly(text), false, text)
})

test('a preview has no marks', () => {
  assert.equal(plainText('**a**\n```js\nb\n``` `c`'), 'a b c')
})
