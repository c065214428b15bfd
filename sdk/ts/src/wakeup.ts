/** As much of a browser as tells that the device was asleep, or has another network or none. */
export interface Page {
  addEventListener(event: string, f: () => void): void
  removeEventListener(event: string, f: () => void): void
  readonly document?: Page & { readonly visibilityState: string }
}

const ofPage = ['online', 'offline', 'pageshow']

/**
 * Has f called when the device may have been asleep, or has another network or none: a
 * connection over the one that is gone says nothing of it. Where there is no window, nothing
 * does that. Spec: S-5.6.
 */
export function watchWakeUps(f: () => void, page: Partial<Page> = globalThis): () => void {
  const { document } = page
  if (!page.addEventListener || !document) return () => {}
  const onVisible = (): void => {
    if (document.visibilityState === 'visible') f()
  }
  for (const event of ofPage) page.addEventListener(event, f)
  for (const event of ['visibilitychange', 'resume']) document.addEventListener(event, onVisible)
  return () => {
    for (const event of ofPage) page.removeEventListener?.(event, f)
    for (const event of ['visibilitychange', 'resume']) document.removeEventListener(event, onVisible)
  }
}
