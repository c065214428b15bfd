import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { en } from '../console/i18n/en.js'
import { zh } from '../console/i18n/zh.js'

type Text = string | { readonly one?: string; readonly other: string }
const texts = (t: Text): string[] => typeof t === 'string' ? [t] : [...t.one === undefined ? [] : [t.one], t.other]
const holes = (text: string): string => [...text.matchAll(/\{\w+\}/g)].map(([h]) => h).sort().join()
const keys = Object.keys(en) as (keyof typeof en)[]

test('both languages of the console have all texts, with the same values in them', () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort())
  for (const key of keys) {
    const wanted = holes(texts(en[key]).at(-1) ?? '')
    for (const text of [...texts(en[key]), ...texts(zh[key])]) {
      assert.ok(text.trim() !== '', key)
      assert.equal(holes(text), wanted, `${key}: ${text}`)
    }
  }
})

test('every text of the console is shown somewhere', () => {
  const source = readdirSync('console', { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f) && !/i18n|wire/.test(f)).map((f) => readFileSync(`console/${f}`, 'utf8')).join('\n')
  const groups = new Set([...source.matchAll(/named\(tr, '(\w+)'|t\(`(\w+)_\$\{/g)].map((m) => m[1] ?? m[2]))
  assert.deepEqual(keys.filter((key) => !source.includes(`'${key}'`) && !groups.has(key.split('_')[0] ?? '')), [])
})

test('each incident has a text and what to do, in the guide as well', () => {
  const guide = readFileSync('../docs/guide/console.md', 'utf8')
  const codes = [...guide.matchAll(/<a id="(\w+)"><\/a>/g)].map((m) => m[1] ?? '')
  assert.ok(codes.length > 15, 'the guide lists incidents')
  for (const code of codes) for (const group of ['incident', 'todo']) assert.ok(`${group}_${code}` in en, `${group}_${code}`)
})
