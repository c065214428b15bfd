import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fullDate, shortDate, timeOf } from './dates.js'
import type { Translation } from './index.js'

const en: Translation = { language: 'en', tag: 'en', t: (key) => key }
const zh: Translation = { language: 'zh', tag: 'zh-CN', t: (key) => key }

test('the time of day is that of the language, the same wherever it stands', () => {
  for (const [hour, minute, inEnglish, inChinese] of [[0, 0, '12:00 AM', '00:00'], [9, 5, '9:05 AM', '09:05'], [12, 30, '12:30 PM', '12:30'], [23, 59, '11:59 PM', '23:59']] as const) {
    const ms = new Date(2026, 10, 26, hour, minute).getTime()
    for (const [translation, tag, time] of [[en, 'en', inEnglish], [zh, 'zh-CN', inChinese]] as const) {
      assert.equal(timeOf(ms, translation), time)
      assert.equal(new Intl.DateTimeFormat(tag, { timeStyle: 'short' }).format(ms).replace('\u202f', ' '), time) // it is what the language does
      assert.equal(shortDate(ms, translation, ms), time)
      assert.ok(fullDate(ms, translation).endsWith(` ${time}`), fullDate(ms, translation))
    }
  }
})
