import type { DOMAttributes, TouchEvent } from 'react'
import type { MenuPlace } from '../ui/index.js'

const restMs = 500
const slack = 10 // px that a finger at rest may move

/** Safari on iOS sends no contextmenu when a finger rests on something, as other browsers do. */
function sendsNone(): boolean {
  return /iPhone|iPad|iPod/.test(navigator.userAgent) || navigator.platform === 'MacIntel' && navigator.maxTouchPoints > 1
}

let timer: ReturnType<typeof setTimeout> | undefined // there is one finger that can rest
let from: MenuPlace = { x: 0, y: 0 }
let opened = false

function end(): void {
  clearTimeout(timer)
  timer = undefined
}

/** Handlers that open a menu where a finger rests, in browsers that do not tell of it. */
export function onRest(open: (at: MenuPlace) => void): Pick<DOMAttributes<HTMLElement>, 'onTouchStart' | 'onTouchMove' | 'onTouchEnd' | 'onTouchCancel'> {
  if (!sendsNone()) return {}
  return {
    onTouchStart: ({ touches }: TouchEvent) => {
      end()
      opened = false
      const finger = touches[0]
      if (!finger || touches.length > 1) return
      from = { x: finger.clientX, y: finger.clientY }
      timer = setTimeout(() => {
        opened = true
        open(from)
      }, restMs)
    },
    onTouchMove: ({ touches }: TouchEvent) => {
      const finger = touches[0]
      if (!finger || Math.hypot(finger.clientX - from.x, finger.clientY - from.y) > slack) end()
    },
    onTouchEnd: (e: TouchEvent) => {
      end()
      if (opened) e.preventDefault() // it is no tap
    },
    onTouchCancel: end,
  }
}
