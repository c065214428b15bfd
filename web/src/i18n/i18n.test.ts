import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readdirSync, readFileSync } from 'node:fs'
import { en } from './en.js'
import type { Text } from './translation.js'
import { fill } from './fillText.js'
import { zh } from './zh.js'
import { laterEn, laterZh } from './laterTexts.js'

const texts = (t: Text): string[] => typeof t === 'string' ? [t] : [...t.one === undefined ? [] : [t.one], t.other]
const holes = (text: string): string => [...text.matchAll(/\{\w+\}/g)].map(([h]) => h).sort().join()

function same<Key extends string>(english: Readonly<Record<Key, Text>>, chinese: Readonly<Record<Key, Text>>): void {
  assert.deepEqual(Object.keys(chinese).sort(), Object.keys(english).sort())
  for (const key of Object.keys(english) as Key[]) {
    const wanted = holes(texts(english[key]).at(-1) ?? '')
    for (const text of [...texts(english[key]), ...texts(chinese[key])]) {
      assert.ok(text.trim() !== '', key)
      assert.equal(holes(text), wanted, `${key}: ${text}`)
    }
  }
}

test('both languages have all texts, with the same values in them', () => {
  same(en, zh)
  same(laterEn, laterZh)
})

test('what is counted has the forms of its language', () => {
  const english: Readonly<Record<string, Text>> = { ...en, ...laterEn }
  const chinese: Readonly<Record<string, Text>> = { ...zh, ...laterZh }
  for (const [key, text] of Object.entries(english)) {
    if (typeof text === 'string') continue
    assert.ok('one' in text && 'other' in text, `en ${key}`)
    const other = chinese[key]
    assert.ok(typeof other === 'object' && !('one' in other), `zh ${key}`)
  }
})

test('every text is shown somewhere', () => {
  const source = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f) && !f.includes('i18n')).map((f) => readFileSync(`src/${f}`, 'utf8')).join('\n') + readFileSync('src/i18n/dates.ts', 'utf8')
  assert.deepEqual([...Object.keys(en), ...Object.keys(laterEn)].filter((key) => !source.includes(`'${key}'`)), [])
})

test('a value has a blank beside it, but not between two Chinese signs', () => {
  assert.equal(fill('{name} 将 {who} 设为管理员', { name: '你', who: 'Bob' }), '你将 Bob 设为管理员')
  assert.equal(fill('{name} 将 {who} 设为管理员', { name: 'Ann', who: '王小明' }), 'Ann 将王小明设为管理员')
  assert.equal(fill('{n} unread in {title}', { n: 3, title: '港口' }), '3 unread in 港口')
  assert.equal(fill('{missing} stays', {}), '{missing} stays')
})
