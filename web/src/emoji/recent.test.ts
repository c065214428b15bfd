import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forgetAccount } from '../browserStorage.js'
import { keepEmoji, keepTone, recentEmojis, toneOf } from './recent.js'

test('the emojis that were chosen last are kept by account, few of them, and go with the account', () => {
  const kept = new Map<string, string>()
  const storage = new Proxy({ getItem: (k: string) => kept.get(k) ?? null, setItem: (k: string, v: string) => void kept.set(k, v), removeItem: (k: string) => void kept.delete(k) }, { ownKeys: () => [...kept.keys()], getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }) })
  Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true })
  assert.deepEqual(recentEmojis('anna'), [])
  for (const sign of ['⛵', '🔥', '⛵']) keepEmoji('anna', sign)
  keepTone('anna', 3)
  assert.deepEqual([recentEmojis('anna'), toneOf('anna')], [['⛵', '🔥'], 3])
  assert.deepEqual([recentEmojis('ben'), toneOf('ben')], [[], 0])
  for (let i = 0; i < 100; i++) keepEmoji('anna', String.fromCodePoint(0x1f600 + i))
  assert.equal(recentEmojis('anna').length, 32)
  for (const broken of ['{', '{}', '[1,null]']) {
    kept.set('petrel:anna:emoji', broken)
    assert.deepEqual(recentEmojis('anna'), [])
  }
  keepEmoji('anna', '⛵')
  forgetAccount('anna')
  assert.deepEqual([...kept.keys()], [])
})
