import { type FocusEvent, type KeyboardEvent, useMemo } from 'react'
import { isComposing } from '../../ui/index.js'

/**
 * Arrows move the focus from message to message; Tab leaves the list. Enter, and the key for
 * menus, open the menu of the message.
 */
export function useRoving(): { readonly onKeyDown: (e: KeyboardEvent<HTMLElement>) => void; readonly onFocus: (e: FocusEvent<HTMLElement>) => void } {
  return useMemo(() => ({
    onKeyDown(e) {
      if (isComposing(e) || !(e.target instanceof HTMLElement) || e.target.dataset['key'] === undefined) return
      const rows = [...e.currentTarget.querySelectorAll<HTMLElement>('[data-key]')]
      const at = rows.indexOf(e.target)
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + 10, PageUp: at - 10 }[e.key]
      if (to !== undefined) {
        e.preventDefault()
        rows[Math.max(0, Math.min(to, rows.length - 1))]?.focus()
      } else if (e.key === 'Enter') {
        e.preventDefault()
        const { x, y, height } = e.target.getBoundingClientRect()
        e.target.querySelector('.message')?.dispatchEvent(new MouseEvent('contextmenu', { bubbles: true, cancelable: true, clientX: x + 40, clientY: y + Math.min(40, height) }))
      }
    },
    onFocus(e) {
      const row = e.target.closest<HTMLElement>('[data-key]')
      if (!row) return
      for (const before of e.currentTarget.querySelectorAll<HTMLElement>('[data-key][tabindex="0"]')) before.tabIndex = -1
      row.tabIndex = 0
    },
  }), [])
}

/** Makes the newest message the one that Tab comes to, if none is yet. */
export function enterByNewest(content: HTMLElement): void {
  if (content.querySelector('[data-key][tabindex="0"]')) return
  const rows = content.querySelectorAll<HTMLElement>('[data-key]')
  const newest = rows[rows.length - 1]
  if (newest) newest.tabIndex = 0
}
