import { repairAny } from './conversation.js'
import { takeHint } from './events.js'
import type { SetFocus } from './frames.js'
import { ask, isDue, offers, retryAt } from './request.js'
import type { Core, Live } from './state.js'

/** Sets the conversations whose entries the application wants at once; absent: all. Spec: S-8.1. */
export function setFocus(c: Core, convs?: readonly string[]): void {
  c.focus = convs && { convs: [...convs] }
  sendFocus(c)
  repairAny(c)
}

const elsewhere: SetFocus = { convs: [] } // equal to no focus of the application, so the next sendFocus sends it again

/** Sends the focus to the server, unless the server has it. */
export function sendFocus(c: Core): void {
  const lv = c.live
  if (!lv || lv.focused === c.focus || !offers(lv, 'focus')) return
  lv.focused = c.focus
  ask(c, lv, { focus: c.focus ?? { convs: [], all: true } }, (f) => {
    if (f?.kind === 'focus') for (const h of f.focus.heads) takeHint(c, h)
    if (f?.kind !== 'error' || !f.error.retryable) return
    lv.focused = elsewhere
    lv.focusAt = retryAt(c, f.error)
  })
}

/** Sends the focus again after the server refused it for the moment. */
export function repeatFocus(c: Core, lv: Live): void {
  if (!isDue(c, lv.focusAt)) return
  lv.focusAt = Infinity
  sendFocus(c)
}
