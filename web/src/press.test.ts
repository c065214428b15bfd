import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import type { TouchEvent } from 'react'
import { onRest } from './press.js'

describe('a finger that rests', () => {
  function at(t: TestContext, userAgent: string): { readonly opened: unknown[]; readonly handlers: ReturnType<typeof onRest> } {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    Object.defineProperty(globalThis, 'navigator', { value: { userAgent, platform: '', maxTouchPoints: 5 }, configurable: true })
    const opened: unknown[] = []
    return { opened, handlers: onRest((place) => opened.push(place)) }
  }
  const touch = (x: number, y: number): TouchEvent => ({ touches: [{ clientX: x, clientY: y }] }) as unknown as TouchEvent
  const iPhone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)'

  test('opens a menu on an iPhone, and its end is no tap', (t) => {
    const { opened, handlers } = at(t, iPhone)
    handlers.onTouchStart?.(touch(10, 20) as never)
    handlers.onTouchMove?.(touch(13, 21) as never)
    t.mock.timers.tick(600)
    assert.deepEqual(opened, [{ x: 10, y: 20 }])
    let prevented = false
    handlers.onTouchEnd?.({ preventDefault: () => { prevented = true } } as never)
    assert.equal(prevented, true)
  })

  test('opens none when it scrolls or taps', (t) => {
    const { opened, handlers } = at(t, iPhone)
    handlers.onTouchStart?.(touch(10, 20) as never)
    handlers.onTouchMove?.(touch(10, 40) as never)
    t.mock.timers.tick(600)
    handlers.onTouchStart?.(touch(10, 20) as never)
    t.mock.timers.tick(200)
    handlers.onTouchEnd?.({ preventDefault: () => assert.fail('it was a tap') } as never)
    t.mock.timers.tick(600)
    assert.deepEqual(opened, [])
  })

  test('is left to a browser that tells of it', (t) => {
    assert.deepEqual(at(t, 'Mozilla/5.0 (Linux; Android 16)').handlers, {})
  })
})
