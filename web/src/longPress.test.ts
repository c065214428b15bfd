import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { longPressHandlers } from './longPress.js'

describe('a finger that rests', () => {
  interface Finger {
    readonly opened: unknown[]
    /** Has a handler take an event. Returns what the handler has called of it. */
    readonly tell: (name: keyof ReturnType<typeof longPressHandlers>, event?: object) => readonly string[]
    readonly wait: (ms: number) => void
  }

  function finger(t: TestContext): Finger {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const opened: unknown[] = []
    const handlers = longPressHandlers((place) => opened.push(place))
    return {
      opened,
      tell(name, event = {}) {
        const called: string[] = []
        const handle = handlers[name] as (e: object) => void
        handle({ pointerType: 'touch', isPrimary: true, pointerId: 7, clientX: 10, clientY: 20, currentTarget: 'the message', isTrusted: true, preventDefault: () => called.push('prevented'), stopPropagation: () => called.push('stopped'), ...event })
        return called
      },
      wait: (ms) => t.mock.timers.tick(ms),
    }
  }
  const place = { x: 10, y: 20, pointer: 7, of: 'the message' }

  test('opens a menu after half a second, and its end is no tap', (t) => {
    const { opened, tell, wait } = finger(t)
    tell('onPointerDown')
    tell('onPointerMove', { clientX: 13, clientY: 21 })
    wait(490)
    assert.deepEqual(opened, [])
    wait(20)
    assert.deepEqual(opened, [place])
    tell('onPointerUp')
    assert.deepEqual(tell('onTouchEnd'), ['prevented'])
  })

  test('opens none when it moves, scrolls or taps, or is a mouse or a second finger', (t) => {
    const { opened, tell, wait } = finger(t)
    for (const [name, event] of [['onPointerMove', { clientY: 31 }], ['onPointerCancel', {}], ['onPointerUp', {}], ['onPointerDown', { isPrimary: false, clientX: 90 }]] as const) {
      tell('onPointerDown')
      wait(200)
      tell(name, event)
      assert.deepEqual(tell('onTouchEnd'), [])
      wait(600)
      assert.deepEqual(opened, [], name)
    }
    tell('onPointerDown', { pointerType: 'mouse' })
    wait(600)
    assert.deepEqual(opened, [])
  })

  test('opens one menu if the browser tells of it too, before or after', (t) => {
    const { opened, tell, wait } = finger(t)
    tell('onPointerDown')
    wait(400)
    assert.deepEqual(tell('onContextMenuCapture'), []) // it goes on to who opens the menu
    wait(600)
    assert.deepEqual(opened, [])
    tell('onPointerDown')
    wait(600)
    assert.deepEqual(opened, [place])
    assert.deepEqual(tell('onContextMenuCapture', { isTrusted: false }), []) // Enter on the message
    assert.deepEqual(tell('onContextMenuCapture'), ['prevented', 'stopped'])
    assert.deepEqual(tell('onContextMenuCapture'), []) // once: the next one is by a key
  })
})
