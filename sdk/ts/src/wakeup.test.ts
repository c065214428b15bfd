import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchWakeUps } from './wakeup.js'

test('a device wakes up when its network goes or comes, or the person turns to the page, until nobody wants to know', () => {
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' })
  const page = Object.assign(new EventTarget(), { document })
  let calls = 0
  const end = watchWakeUps(() => calls++, page)
  for (const event of ['online', 'offline', 'pageshow']) page.dispatchEvent(new Event(event))
  for (const event of ['visibilitychange', 'resume']) document.dispatchEvent(new Event(event))
  assert.equal(calls, 5)
  document.visibilityState = 'hidden'
  document.dispatchEvent(new Event('visibilitychange'))
  assert.equal(calls, 5)
  end()
  page.dispatchEvent(new Event('offline'))
  assert.equal(calls, 5)
})
