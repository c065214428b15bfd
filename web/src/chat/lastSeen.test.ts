import assert from 'node:assert/strict'
import { test } from 'node:test'
import { en } from '../i18n/en.js'
import { translationOf } from '../i18n/translation.js'
import { zh } from '../i18n/zh.js'
import { lastSeen } from './lastSeen.js'

const english = translationOf('en', en)
const chinese = translationOf('zh', zh)
const now = new Date(2026, 10, 29, 14, 35).getTime()
const at = (day: number, hour: number, minute: number): number => new Date(2026, 10, day, hour, minute).getTime()

test('when somebody was online last is told as exactly as it is known, and not more', () => {
  for (const [ms, inEnglish, inChinese] of [
    [at(29, 14, 30), 'last seen less than 10 minutes ago', '10 分钟内在线'],
    [at(29, 14, 26), 'last seen less than 10 minutes ago', '10 分钟内在线'],
    [at(29, 14, 20), 'last seen at about 2:20 PM', '约 14:20 在线'],
    [at(28, 23, 50), 'last seen yesterday at about 11:50 PM', '昨天约 23:50 在线'],
    [at(3, 9, 0), 'last seen on November 3', '11月3日在线'],
    [new Date(2025, 4, 1).getTime(), 'last seen on May 1, 2025', '2025年5月1日在线'],
  ] as const) {
    assert.equal(lastSeen(ms, 0, english, now), inEnglish)
    assert.equal(lastSeen(ms, 0, chinese, now), inChinese)
  }
})

test('nobody was seen last before what they have said', () => {
  assert.equal(lastSeen(at(29, 14, 20), at(29, 14, 29), english, now), 'last seen less than 10 minutes ago')
  assert.equal(lastSeen(at(29, 11, 10), at(29, 11, 19), english, now), 'last seen at about 11:19 AM')
  assert.equal(lastSeen(at(29, 11, 10), at(28, 11, 19), english, now), 'last seen at about 11:10 AM')
})
