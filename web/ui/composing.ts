import type { KeyboardEvent as ReactKeyboardEvent } from 'react'

/**
 * Whether a key belongs to an input method, which composes a character with it. Every handler
 * of keys asks this first: Enter then chooses a word, and sends nothing. Safari ends the
 * composition before the key that has ended it; its code is 229 then.
 */
export function isComposing(event: KeyboardEvent | ReactKeyboardEvent): boolean {
  const key = 'nativeEvent' in event ? event.nativeEvent : event
  return key.isComposing || key.keyCode === 229
}

/** Whether Enter alone sends what is written. The keyboards of phones have one Enter, and no Shift with it: there it begins a new line, and a button sends. */
export function enterSends(): boolean {
  return !matchMedia('(pointer: coarse)').matches
}
