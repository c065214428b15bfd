import type { KeyboardEvent } from 'react'
import { isComposing } from '../../ui/index.js'
import { activeIn } from '../../ui/roots.js'

/**
 * Handles a key in a dialog with a search field above rows: the arrows go from row to row, and Enter in the field
 * opens the first user that is listed.
 */
export function rowKeys(e: KeyboardEvent<HTMLElement>): void {
  if (isComposing(e)) return
  const rows = [...e.currentTarget.querySelectorAll<HTMLElement>('button.row, button.chat-row')]
  const at = rows.indexOf(activeIn(e.currentTarget) as HTMLElement)
  const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key]
  if (to !== undefined && rows.length > 0) {
    e.preventDefault()
    if (to < 0) e.currentTarget.querySelector('input')?.focus()
    else rows[Math.min(to, rows.length - 1)]?.focus()
  } else if (e.key === 'Enter' && e.target instanceof HTMLInputElement) {
    e.preventDefault()
    e.currentTarget.querySelector<HTMLElement>('.chat-row')?.click()
  }
}
