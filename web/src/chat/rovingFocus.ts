import { type FocusEvent, type KeyboardEvent, type MouseEvent as PressEvent, useMemo } from 'react'
import { activeIn, isComposing } from '../../ui/index.js'

interface Roving {
  readonly onKeyDown: (e: KeyboardEvent<HTMLElement>) => void
  readonly onContextMenu: (e: PressEvent<HTMLElement>) => void
  readonly onFocus: (e: FocusEvent<HTMLElement>) => void
  readonly onBlur: (e: FocusEvent<HTMLElement>) => void
}

/**
 * The messages are one stop of Tab. Arrows move the focus from message to message, also from
 * what is inside one. Enter, and the key for menus, open the menu of the message. The right
 * arrow goes to the links and buttons inside, and from one to the next; Escape and the left
 * arrow go back. Space selects the message, or takes it out of the selection; Shift and an arrow
 * select the next one as well.
 */
export function useRoving(pick: (key: string, way: 'toggle' | 'add') => void): Roving {
  return useMemo(() => ({
    onKeyDown(e) {
      const { target } = e
      if (isComposing(e) || e.altKey || e.ctrlKey || e.metaKey || !(target instanceof HTMLElement)) return
      const row = target.closest<HTMLElement>('[data-key]')
      if (!row) return
      const isRow = target === row
      const isCode = target.tagName === 'PRE' // what does not fit is scrolled by the arrows
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

const secondButton = 2 // of a mouse; a contextmenu by a key has none

function openMenu(row: HTMLElement): void {
  const { x, y, height } = (row.querySelector('.bubble') ?? row).getBoundingClientRect()
  row.querySelector('.message')?.dispatchEvent(new MouseEvent('contextmenu', { bubbles: true, cancelable: true, clientX: x + 40, clientY: y + Math.min(40, height) }))
}

function stopAt(content: HTMLElement, row: HTMLElement): void {
  for (const before of content.querySelectorAll<HTMLElement>('[data-key][tabindex="0"]')) before.tabIndex = -1
  row.tabIndex = 0
}

/** Makes the newest message the stop of Tab, unless the person is at another one. */
export function enterByNewest(content: HTMLElement): void {
  const newest = content.lastElementChild?.querySelector(':scope > ol')?.lastElementChild // of the last day; this is done after each drawing
  if (newest instanceof HTMLElement && newest.tabIndex !== 0 && !content.contains(activeIn(content))) stopAt(content, newest)
}

/** Moves the focus to the message to which the person was brought, if it was in another message, or its element is gone. */
export function arrive(content: HTMLElement): void {
  if (document.activeElement !== document.body && !content.contains(activeIn(content))) return
  const row = content.querySelector('.lit')?.closest<HTMLElement>('[data-key]') ?? content.querySelector<HTMLElement>('[data-key][tabindex="0"]')
  row?.focus({ preventScroll: true })
}
