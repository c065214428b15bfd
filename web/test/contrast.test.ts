// Whether what is written can be read, by the colours that ui/tokens.css gives.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readable } from '../ui/readable.js'

const least = 4.5 // WCAG 2.2, 1.4.3

/** The colours of a token in the light and in the dark theme. */
function colours(tokens: string, name: string): readonly [string, string] {
  const value = new RegExp(`--${name}: ([^;]+);`).exec(tokens)?.[1] ?? ''
  const [light, dark = light] = value.match(/#[0-9a-f]{6}(?![0-9a-f])/g) ?? []
  assert.ok(light && dark, `${name} is no pair of solid colours: ${value}`)
  return [light, dark]
}

function luminance(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

test('texts have a contrast of 4.5:1 to what they are written on, in both themes', () => {
  const tokens = readFileSync('ui/tokens.css', 'utf8')
  const low: string[] = []
  for (const [ink, paper] of readable) {
    for (const theme of [0, 1] as const) {
      const [a, b] = [luminance(colours(tokens, ink)[theme]), luminance(colours(tokens, paper)[theme])]
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
      if (contrast < least) low.push(`${ink} on ${paper}, ${theme === 0 ? 'light' : 'dark'}: ${contrast.toFixed(2)}`)
    }
  }
  assert.deepEqual(low, [])
})
