import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { forElement } from '../elementStyles.js'

const files = ['ui', 'src'].flatMap((folder) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((f) => path.join(folder, f))).filter((f) => f.endsWith('.css') && !f.includes('gallery'))

test('no style sheet of an element goes by the page around it', () => {
  assert.ok(files.length >= 10)
  for (const file of files) {
    const css = forElement(readFileSync(file, 'utf8'), file).replace(/\/\*[^]*?\*\//g, '')
    const over = path.basename(file) === 'overlays.css' // menus and dialogs are over the page
    assert.doesNotMatch(css, /:root|(^|[\s,}])(html|body)[\s,{]|\drem\b/m, file)
    if (!over) assert.doesNotMatch(css, /\d(dvh|vh|vw|dvw)\b|@media[^{]*(width|height)/, file)
  }
})

test('a width is asked of the element, and what is asked of the device beside it stays', () => {
  assert.equal(forElement('@media (hover: hover) and (width > 37.5em) {\n  .a { b: c; }\n  .d { e: 2rem; }\n}\n@media (pointer: coarse) { .f { g: h; } }', 'a.css'),
    '@media (hover: hover) { @container petrel (width > 37.5em) {\n  .a { b: c; }\n  .d { e: calc(2 * var(--rem)); }\n} }\n@media (pointer: coarse) { .f { g: h; } }')
})

test('each token can be set from outside', () => {
  const tokens = forElement(readFileSync('ui/tokens.css', 'utf8'), 'ui/tokens.css')
  const named = [...readFileSync('ui/tokens.css', 'utf8').matchAll(/^ {2}--([\w-]+): (.*);$/gm)]
  assert.ok(named.length > 30)
  const followed = [...readFileSync('src/embed/embed.css', 'utf8').matchAll(/--of-([\w-]+): (var\(--petrel-\1, )?/g)]
  assert.deepEqual(followed.filter(([, , own]) => own === undefined).map(([, name]) => name), ['accent', 'surface']) // others: what the page says holds
  for (const [, name] of followed) assert.ok(named.some(([, token]) => token === name), name)
  for (const [, name, value] of named) assert.ok(tokens.includes(`--${name}: var(--of-${name}, var(--petrel-${name}, `), `${name}: ${value}`)
})
