import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkProfile } from './profileDraft.js'

test('what is wrong with a profile is said before the server is asked', () => {
  for (const [field, text, want] of [
    ['handle', '', undefined], ['handle', 'bob', undefined], ['handle', 'bo', 'errorHandleShort'], ['handle', 'b'.repeat(33), 'errorHandleLong'], ['handle', 'bob-2', 'errorHandleSigns'],
    ['handle', '小明', 'errorHandleSigns'], ['about', '🦊'.repeat(140), undefined], ['about', '🦊'.repeat(141), 'errorAboutLong'],
    ['displayName', '海'.repeat(42), undefined], ['displayName', '海'.repeat(43), 'errorNameLong'],
  ] as const) assert.equal(checkProfile(field, text), want, text)
})
