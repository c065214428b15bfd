import type { KeyboardEvent as ReactKeyboardEvent } from 'react'

/**
 * Whether a key belongs to an input method, which composes a character with it. Every key handler checks this
 * first: during composition Enter chooses a word and must not send. Safari ends the composition before the event of
 * the last key; that event has the keyCode 229.
 */
export function isComposing(event: KeyboardEvent | ReactKeyboardEvent): boolean {
  const key = 'nativeEvent' in event ? event.nativeEvent : event
  return key.isComposing || key.keyCode === 229
}

/**
 * Whether Enter alone sends a message. Phone keyboards have no Shift with Enter, so there Enter begins a new line,
 * and a button sends.
 */
export function enterSends(): boolean {
  return !matchMedia('(pointer: coarse)').matches
}
