import { createContext, type ReactElement, use, useEffect, useRef, useSyncExternalStore } from 'react'

interface Toast {
  readonly id: number
  readonly text: string
}

const shownMs = 5000
const most = 3 // the most at once; a further one removes the oldest

/** The toasts of a page, or of an element in a page: short texts that are shown for some seconds. */
export class ToastList {
  #toasts: readonly Toast[] = []
  #last = 0
  readonly #listeners = new Set<() => void>()

  /** Shows a text to the person for shownMs. A toast with the same text is replaced. */
  readonly show = (text: string): void => {
    const id = ++this.#last
    this.#set([...this.#toasts.filter((t) => t.text !== text), { id, text }].slice(-most))
    setTimeout(() => this.#set(this.#toasts.filter((t) => t.id !== id)), shownMs)
  }

  readonly all = (): readonly Toast[] => this.#toasts

  readonly subscribe = (f: () => void): (() => void) => {
    this.#listeners.add(f)
    return () => this.#listeners.delete(f)
  }

  #set(now: readonly Toast[]): void {
    this.#toasts = now
    for (const f of this.#listeners) f()
  }
}

const ofPage = new ToastList()

export const ToastContext = createContext(ofPage)

/** Returns the function that shows a toast. It is always the same function. */
export function useToast(): (text: string) => void {
  return use(ToastContext).show
}

/** Shows a toast from outside of components, in a page of Petrel. */
export const toast = ofPage.show

const topPx = 8 // as in overlays.css

/**
 * Draws the toasts over everything, even over a dialog that opened before: at the top of the view, or of the
 * element `within`, where they cover neither the newest messages nor a field.
 */
export function Toasts({ within }: { readonly within?: Element }): ReactElement {
  const list = use(ToastContext)
  const all = useSyncExternalStore(list.subscribe, list.all)
  const ref = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const box = ref.current
    box?.hidePopover()
    if (!box || all.length === 0) return
    if (within) {
      const { left, width, top } = within.getBoundingClientRect()
      Object.assign(box.style, { left: `${left}px`, width: `${width}px`, top: `${top + topPx}px` })
    }
    box.showPopover()
  }, [all, within])
  return <div className="toasts" role="status" popover="manual" ref={ref}>{all.map((t) => <div className="toast" key={t.id}>{t.text}</div>)}</div>
}
