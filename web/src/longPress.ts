import type { DOMAttributes, MouseEvent, PointerEvent, TouchEvent } from 'react'
import type { MenuPlace } from '../ui/index.js'

const restMs = 500
const slack = 10 // px that a finger at rest may move

let timer: ReturnType<typeof setTimeout> | undefined // there is one finger that can rest
let from: MenuPlace = { x: 0, y: 0 }
let opened = false // by the finger that came last

function end(): void {
  clearTimeout(timer)
  timer = undefined
}

type Handlers = Required<Pick<DOMAttributes<HTMLElement>, 'onPointerDown' | 'onPointerMove' | 'onPointerUp' | 'onPointerCancel' | 'onTouchEnd' | 'onContextMenuCapture'>>

/**
 * Handlers that open a menu where a finger rests. Some browsers tell of it by a contextmenu, and
 * Safari on iOS does not. Whichever comes first opens the menu. A browser that scrolls ends the
 * pointer, and so the rest.
 */
export function onRest(open: (at: MenuPlace) => void): Handlers {
  return {
    onPointerDown({ pointerType, isPrimary, pointerId, clientX, clientY, currentTarget }: PointerEvent) {
      end()
      opened = false
      if (pointerType !== 'touch' || !isPrimary) return // also the second of two fingers: it is no rest
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
      if (opened) e.preventDefault() // it is no tap
    },
    onContextMenuCapture(e: MouseEvent) {
      end()
      if (!opened || !e.isTrusted) return // by a mouse, by a key, or by the browser before the time was over
      opened = false
      e.preventDefault()
      e.stopPropagation()
    },
  }
}
