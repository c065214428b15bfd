import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { emojiModule } from '../../emojiModule.js'
import { type EmojiData, unpack } from './search.js'
import { toned } from './tone.js'

/** The emojis of the bundle. */
function read(language: 'en' | 'zh'): EmojiData {
  const [, json = ''] = /^export default JSON.parse\((.*)\)$/s.exec(emojiModule(path.resolve('.'), language)) ?? []
  return unpack(JSON.parse(JSON.parse(json) as string) as Parameters<typeof unpack>[0])
}

const plain = (sign: string | undefined): string => (sign ?? '').replaceAll('\ufe0f', '')

test('the emoji that is called so is the first one, then come those whose name begins so', () => {
  const { search } = read('en')
  const first = (words: string): string => plain(search(words)[0]?.sign)
  for (const [words, sign] of Object.entries({
    thu: '👍', thumbsup: '👍', '+1': '👍', heart: '❤', fire: '🔥', cry: '😢', smile: '😄', joy: '😂', tada: '🎉', party_popper: '🎉', 'party popper': '🎉', dog: '🐶', ok: '🆗', ferry: '⛴',
  })) assert.equal(first(words), sign, words)
  assert.deepEqual(search('xyzzy'), [])
})

test('in Chinese they are found by their Chinese names, and by the short ones that everybody knows', () => {
  const { search } = read('zh')
  const first = (words: string): string => plain(search(words)[0]?.sign)
  for (const [words, sign] of Object.entries({ 爱心: '❤', 狗: '🐕', 火: '🔥', 点赞: '👍', 微笑: '☺', 哭: '😢', heart: '❤', thumbsup: '👍', fire: '🔥', tada: '🎉' })) assert.equal(first(words), sign, words)
})

test('only a whole name names an emoji', () => {
  const { named } = read('en')
  assert.deepEqual(['smile', '+1', 'Red_Heart', 'smil', 'laugh', '30'].map((name) => plain(named(name)?.sign)), ['😄', '👍', '❤', '', '', ''])
})

test('people and hands come in five skin tones, and are called the same in each', () => {
  const { groups, labelOf } = read('en')
  const all = groups.flatMap(({ emojis }) => emojis)
  const tonable = new Set(all.filter((e) => e.toned).map((e) => plain(e.sign)))
  for (const sign of ['👍', '👋', '☝', '🧑‍🚒', '🏃‍♀']) assert.ok(tonable.has(sign), sign)
  for (const sign of ['😀', '🤝', '👪', '⛵', '🐶']) assert.ok(!tonable.has(sign), sign)
  assert.ok(tonable.size > 200, `${tonable.size} emojis have tones`)
  assert.deepEqual([toned('👍', 0), toned('👍', 1), toned('☝️', 5), toned('🧑‍🚒', 3)], ['👍', '👍🏻', '☝🏿', '🧑🏽‍🚒'])
  assert.deepEqual([labelOf('👍🏻'), labelOf('⛵')], ['thumbs up', 'sailboat'])
})
