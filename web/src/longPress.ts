import type { DOMAttributes, MouseEvent, PointerEvent, TouchEvent } from 'react'
import type { MenuPlace } from '../ui/index.js'

const restMs = 500
const slack = 10 // px that a resting finger may move

let timer: ReturnType<typeof setTimeout> | undefined // one timer: only one finger can rest
let from: MenuPlace = { x: 0, y: 0 }
let opened = false // the last finger has opened a menu

function end(): void {
  clearTimeout(timer)
  timer = undefined
}

type Handlers = Required<Pick<DOMAttributes<HTMLElement>, 'onPointerDown' | 'onPointerMove' | 'onPointerUp' | 'onPointerCancel' | 'onTouchEnd' | 'onContextMenuCapture'>>

/**
 * Returns handlers that open a menu where a finger rests. Some browsers report a long press by a contextmenu event;
 * Safari on iOS does not. Whichever comes first, the event or the timer, opens the menu. When the browser begins to
 * scroll, it cancels the pointer, and so the long press.
 */
export function longPressHandlers(open: (at: MenuPlace) => void): Handlers {
  return {
    onPointerDown({ pointerType, isPrimary, pointerId, clientX, clientY, currentTarget }: PointerEvent) {
      end()
      opened = false
      if (pointerType !== 'touch' || !isPrimary) return // a second finger ends the long press
      from = { x: clientX, y: clientY, pointer: pointerId, of: currentTarget as Element }
      timer = setTimeout(() => {
        opened = true
        open(from)
      }, restMs)
    },
    onPointerMove({ clientX, clientY }: PointerEvent) {
      if (Math.hypot(clientX - from.x, clientY - from.y) > slack) end()
    },
    onPointerUp: end,
    onPointerCancel: end,
    onTouchEnd(e: TouchEvent) {
      if (opened) e.preventDefault() // a long press is not a tap
    },
    onContextMenuCapture(e: MouseEvent) {
      end()
      if (!opened || !e.isTrusted) return // from a mouse, a key, or the browser before the timer: the event itself opens the menu
      opened = false
      e.preventDefault()
      e.stopPropagation()
    },
  }
}
