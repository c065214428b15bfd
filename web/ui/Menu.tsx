import { type KeyboardEvent, type ReactElement, type ReactNode, useEffect, useLayoutEffect, useRef } from 'react'
import { isComposing } from './composing.js'
import { Icon, type IconName } from './Icon.js'
import { activeIn } from './roots.js'
import { areSheets, pullable, shielded } from './sheet.js'

/** Where a menu opens, in px of the view. */
export interface MenuPlace {
  readonly x: number
  readonly y: number
  readonly isEnd?: boolean // x is the right edge of the menu
  /** The id of the pointer, if a finger still rests there. */
  readonly pointer?: number
  /** The element that the menu belongs to. */
  readonly of?: Element
}

const edge = 8 // px between a menu and the edge of the view
const gap = 8 // px between a menu and the pointer below it, so that the pointer is not on the last item, which often deletes

interface MenuProps {
  readonly at: MenuPlace
  readonly label: string
  readonly onClose: () => void
  /**
   * Called when the menu covers the lower part of the view, with its upper edge. The returned function is called
   * when the menu closes.
   */
  readonly onSheet?: (topPx: number) => () => void
  readonly children: ReactNode
}

/** A menu at a place, or at the lower edge on a phone. It keeps the focus until it is closed. */
export function Menu({ at, label, onClose, onSheet, children }: MenuProps): ReactElement {
  const ref = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const menu = ref.current
    if (!menu) return undefined
    const before = activeIn(menu)
    menu.showPopover()
    if (at.pointer !== undefined) hold(menu, at.pointer)
    const { width, height } = menu.getBoundingClientRect()
    menu.style.left = `${Math.max(edge, Math.min(at.isEnd ? at.x - width : at.x, innerWidth - width - edge))}px`
    menu.style.top = `${Math.max(edge, at.y + height + edge > innerHeight ? at.y - height - gap : at.y)}px`
    menu.querySelector<HTMLElement>('[role^="menuitem"]')?.focus({ preventScroll: true })
    const sunk = areSheets() ? onSheet?.(innerHeight - menu.offsetHeight) : undefined
    return () => {
      sunk?.()
      const active = activeIn(menu)
      const inside = menu.contains(active) || active === null || active === document.body
      if (inside && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true })
    }
  }, [at]) // only another place moves the menu; the other values belong to the place
  useEffect(() => {
    const menu = ref.current
    const toggled = (e: Event): void => {
      if ((e as ToggleEvent).newState === 'closed') onClose()
    }
    if (!menu) return undefined
    menu.addEventListener('toggle', toggled)
    const ends = [pullable(menu, onClose), shielded(menu)]
    return () => {
      menu.removeEventListener('toggle', toggled)
      for (const end of ends) end()
    }
  }, [onClose])
  return (
    <div className="menu" ref={ref} role="menu" aria-label={label} popover="auto" onKeyDown={(e) => move(e, onClose)} onClick={onClose}>
      {children}
    </div>
  )
}

/**
 * Makes the menu receive the end of a touch that began outside. Otherwise, by the HTML standard, lifting the finger
 * outside would close the menu. (Chromium does not do so.)
 */
function hold(menu: HTMLElement, pointer: number): void {
  try {
    menu.setPointerCapture(pointer)
  } catch {
    // The finger was lifted before the menu was drawn.
  }
}

function move(e: KeyboardEvent<HTMLElement>, onClose: () => void): void {
  if (isComposing(e)) return
  const active = activeIn(e.currentTarget)
  const group = active?.closest('[role="group"]') // the items of a group are side by side
  const isSideways = e.key === 'ArrowRight' || e.key === 'ArrowLeft'
  const items = itemsOf(isSideways && group ? group : e.currentTarget).filter((item) => item === active || isSideways || beginsLine(item, group))
  const at = items.indexOf(active as HTMLElement)
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, ArrowRight: group ? at + 1 : undefined, ArrowLeft: group ? at - 1 : undefined, Home: 0, End: items.length - 1 }[e.key]
  if (e.key === 'Tab') onClose()
  if (to === undefined) return
  e.preventDefault()
  items.at(to % items.length)?.focus()
}

const itemsOf = (part: Element): HTMLElement[] => [...part.querySelectorAll<HTMLElement>('[role^="menuitem"]')]

/**
 * Whether arrow up and down stop at an item: outside of groups at each, in a group at the first one, and in the group
 * with the focus at none.
 */
function beginsLine(item: HTMLElement, focused: Element | null | undefined): boolean {
  const group = item.closest('[role="group"]')
  return !group || group !== focused && itemsOf(group)[0] === item
}

export function MenuItem({ icon, danger, onSelect, children }: { readonly icon?: IconName; readonly danger?: boolean; readonly onSelect: () => void; readonly children: ReactNode }): ReactElement {
  return (
    <button type="button" className={danger ? 'menu-item menu-item-danger' : 'menu-item'} role="menuitem" tabIndex={-1} onClick={onSelect}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}
