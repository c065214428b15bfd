import { type FocusEvent, type KeyboardEvent, type MouseEvent as PressEvent, useMemo } from 'react'
import { activeIn, isComposing } from '../../ui/index.js'

interface Roving {
  readonly onKeyDown: (e: KeyboardEvent<HTMLElement>) => void
  readonly onContextMenu: (e: PressEvent<HTMLElement>) => void
  readonly onFocus: (e: FocusEvent<HTMLElement>) => void
  readonly onBlur: (e: FocusEvent<HTMLElement>) => void
}

/**
 * Moves the focus among the messages, which are one stop of Tab. Arrow up and down move it from message to message,
 * even from a link inside one. Enter and the menu key open the menu of the message. Arrow right goes to the links
 * and buttons inside the message, and from one to the next; Escape and arrow left go back. Space selects or
 * deselects the message. Shift with an arrow also selects the next one.
 */
export function useRoving(pick: (key: string, way: 'toggle' | 'add') => void): Roving {
  return useMemo(() => ({
    onKeyDown(e) {
      const { target } = e
      if (isComposing(e) || e.altKey || e.ctrlKey || e.metaKey || !(target instanceof HTMLElement)) return
      const row = target.closest<HTMLElement>('[data-key]')
      if (!row) return
      const isRow = target === row
      const isCode = target.tagName === 'PRE' // the arrows scroll long lines of code
      const go = (to: HTMLElement | undefined): void => {
        e.preventDefault()
        to?.focus()
      }
      const rows = [...e.currentTarget.querySelectorAll<HTMLElement>('[data-key]')]
      const at = rows.indexOf(row)
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + 10, PageUp: at - 10 }[e.key]
      if (e.key === ' ' && isRow) {
        e.preventDefault()
        pick(row.dataset['key'] ?? '', 'toggle')
      } else if (to !== undefined) {
        const next = rows[Math.max(0, Math.min(to, rows.length - 1))]
        if (e.shiftKey && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) for (const one of [row, next]) pick(one?.dataset['key'] ?? '', 'add')
        go(next)
      } else if (e.key === 'Enter' && (isRow || isCode)) {
        e.preventDefault()
        openMenu(row)
      } else if (e.key === 'Escape' && !isRow) {
        go(row)
      } else if (!isCode && (e.key === 'ArrowRight' || e.key === 'ArrowLeft')) {
        const inside = [row, ...row.querySelectorAll<HTMLElement>('.bubble :is(a, button)')]
        go(inside[inside.indexOf(target) + (e.key === 'ArrowRight' ? 1 : -1)])
      }
    },
    onContextMenu(e) {
      const { target, button } = e
      if (button !== secondButton && target instanceof HTMLElement && target.dataset['key'] !== undefined) {
        e.preventDefault()
        openMenu(target)
      }
    },
    onFocus(e) {
      const row = e.target.closest<HTMLElement>('[data-key]')
      if (row) stopAt(e.currentTarget, row)
    },
    onBlur(e) {
      if (!e.currentTarget.contains(e.relatedTarget)) enterByNewest(e.currentTarget)
    },
  }), [pick])
}

const secondButton = 2 // of a mouse; the menu key has none

function openMenu(row: HTMLElement): void {
  const { x, y, height } = (row.querySelector('.bubble') ?? row).getBoundingClientRect()
  row.querySelector('.message')?.dispatchEvent(new MouseEvent('contextmenu', { bubbles: true, cancelable: true, clientX: x + 40, clientY: y + Math.min(40, height) }))
}

function stopAt(content: HTMLElement, row: HTMLElement): void {
  for (const before of content.querySelectorAll<HTMLElement>('[data-key][tabindex="0"]')) before.tabIndex = -1
  row.tabIndex = 0
}

/** Makes the newest message the stop of Tab, unless the focus is on another message. */
export function enterByNewest(content: HTMLElement): void {
  const newest = content.lastElementChild?.querySelector(':scope > ol')?.lastElementChild // in the last day only, because this runs after each drawing
  if (newest instanceof HTMLElement && newest.tabIndex !== 0 && !content.contains(activeIn(content))) stopAt(content, newest)
}

/**
 * Moves the focus to the lit message, or else to the one that is the stop of Tab. It does so only if the focus is
 * among the messages, or the focused element is gone.
 */
export function arrive(content: HTMLElement): void {
  if (document.activeElement !== document.body && !content.contains(activeIn(content))) return
  const row = content.querySelector('.lit')?.closest<HTMLElement>('[data-key]') ?? content.querySelector<HTMLElement>('[data-key][tabindex="0"]')
  row?.focus({ preventScroll: true })
}
