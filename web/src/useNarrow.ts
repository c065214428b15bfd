import { useSyncExternalStore } from 'react'

const query = (): MediaQueryList => matchMedia('(width <= 37.5em)') // as in app.css

/** Whether there is room for one pane only. */
export function isNarrow(): boolean {
  return query().matches
}

function subscribe(f: () => void): () => void {
  const narrow = query()
  narrow.addEventListener('change', f)
  return () => narrow.removeEventListener('change', f)
}

/** The hook for isNarrow, which draws again when the answer changes. */
export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, isNarrow)
}
