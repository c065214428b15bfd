// Sheets: menus and pickers that come from the lower edge where there is room for one pane only. overlays.css has
// their styles.

const farPx = 72 // a longer pull closes the sheet

/** Whether menus are sheets now. */
export function areSheets(): boolean {
  return matchMedia('(width <= 37.5em)').matches
}

/**
 * Makes a sheet follow a finger that pulls it down, and closes it after a long pull. Content that is scrolled down
 * scrolls first. The returned function removes the listeners.
 */
export function pullable(sheet: HTMLElement, onClose: () => void): () => void {
  let from: number | undefined
  let pulled = 0
  const end = (): void => {
    from = undefined
    pulled = 0
    sheet.style.translate = ''
  }
  const start = (e: TouchEvent): void => {
    end()
    if (areSheets() && e.touches.length === 1 && !isScrolled(e.target, sheet)) from = e.touches[0]?.clientY
  }
  const move = (e: TouchEvent): void => {
    if (from === undefined) return
    pulled = (e.touches[0]?.clientY ?? from) - from
    if (pulled <= 0) return
    if (e.cancelable) e.preventDefault() // the page behind must not scroll
    sheet.style.translate = `0 ${pulled}px`
  }
  const lifted = (): void => {
    const isFar = pulled > farPx
    end()
    if (isFar) onClose()
  }
  sheet.addEventListener('touchstart', start, { passive: true })
  sheet.addEventListener('touchmove', move, { passive: false })
  sheet.addEventListener('touchend', lifted)
  sheet.addEventListener('touchcancel', end)
  return () => {
    sheet.removeEventListener('touchstart', start)
    sheet.removeEventListener('touchmove', move)
    sheet.removeEventListener('touchend', lifted)
    sheet.removeEventListener('touchcancel', end)
  }
}

function isScrolled(target: EventTarget | null, sheet: HTMLElement): boolean {
  for (let e = target; e instanceof HTMLElement; e = e.parentElement) {
    if (e.scrollTop > 0) return true
    if (e === sheet) return false
  }
  return false
}

/** Makes a press outside of a sheet close the sheet and do nothing else. The returned function removes the listener. */
export function shielded(sheet: HTMLElement): () => void {
  const pressed = (e: PointerEvent): void => {
    if (!areSheets() || e.composedPath().includes(sheet)) return
    const { timeStamp } = e
    const clicked = (click: Event): void => {
      end()
      click.preventDefault()
      click.stopPropagation()
    }
    const next = (later: Event): void => {
      if (later.timeStamp !== timeStamp) end()
    }
    const end = (): void => {
      removeEventListener('click', clicked, true)
      removeEventListener('pointerdown', next, true)
    }
    addEventListener('click', clicked, true)
    addEventListener('pointerdown', next, true)
  }
  document.addEventListener('pointerdown', pressed, true)
  return () => document.removeEventListener('pointerdown', pressed, true)
}
