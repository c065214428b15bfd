import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hueOf, initials } from '../ui/Avatar.js'

test('a picture has the initials of a name, or its first sign, in any script', () => {
  for (const [name, wanted] of Object.entries({
    'Alice Moreau': 'AM', alice: 'A', 'dave 🚲 okafor': 'DO', 'Ольга Петрова': 'ОП', 王小明: '王', '陈晓 Carol': '陈', 'فريد الحسن': 'ف', 'अनिता शर्मा': 'अ', 'कृष्णा': 'कृ',
    'ng\u0303an': 'N', 'e\u0301ric': 'É', '🦊 Mika': '🦊', '👩‍👩‍👧 us': '👩‍👩‍👧', '3 boats': '3', ' ': '?', '': '?',
  })) assert.equal(initials(name), wanted.normalize(wanted === 'É' ? 'NFD' : 'NFC'), name)
})

test('the colours of pictures are told apart', () => {
  const hues = [...new Set(Array.from({ length: 500 }, (_, i) => hueOf(`user${i}`)))].sort((a, b) => a - b)
  assert.ok(hues.length >= 8)
  for (const [i, hue] of hues.entries()) {
    const next = hues[i + 1] ?? (hues[0] ?? 0) + 360
    assert.ok(next - hue >= 27, `${hue} and ${next}`)
  }
})
