import { type ReactElement, useEffect, useRef, useSyncExternalStore } from 'react'

interface Toast {
  readonly id: number
  readonly text: string
}

const shownMs = 5000
const most = 3 // at once; the oldest one goes

let toasts: readonly Toast[] = []
let last = 0
const listeners = new Set<() => void>()

function show(now: readonly Toast[]): void {
  toasts = now
  for (const f of listeners) f()
}

/** Tells the person something for a few seconds. */
export function toast(text: string): void {
  const id = ++last
  show([...toasts.filter((t) => t.text !== text), { id, text }].slice(-most))
  setTimeout(() => show(toasts.filter((t) => t.id !== id)), shownMs)
}

function subscribe(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

/** Where they are shown, once in a page: over everything, also over a dialog that opened before. */
export function Toasts(): ReactElement {
  const all = useSyncExternalStore(subscribe, () => toasts)
  const ref = useRef<HTMLDivElement>(null)
  useEffect(() => {
    ref.current?.hidePopover()
    if (all.length > 0) ref.current?.showPopover()
  }, [all])
  return <div className="toasts" role="status" popover="manual" ref={ref}>{all.map((t) => <div className="toast" key={t.id}>{t.text}</div>)}</div>
}
