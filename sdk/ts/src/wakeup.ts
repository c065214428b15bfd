/** The events of a browser after which the connection may be gone. */
export interface Page {
  addEventListener(event: string, f: () => void): void
  removeEventListener(event: string, f: () => void): void
  readonly document?: Page & { readonly visibilityState: string }
}

const ofPage = ['online', 'offline', 'pageshow']

/**
 * Calls f when the device may have been asleep, or has another network or none: the old connection does not report that. Without a window nothing
 * calls f. Spec: S-5.6.
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
