/** The part of a window that the SDK uses, for events after which a connection may be dead. */
export interface Page {
  addEventListener(event: string, f: () => void): void
  removeEventListener(event: string, f: () => void): void
  readonly document?: Page & { readonly visibilityState: string }
}

const ofPage = ['online', 'offline', 'pageshow']

/**
 * Calls f when the device may have been asleep, or its network has changed or is gone: an old connection does
 * not report that. The returned function ends the calls. Without a window f is never called. Spec: S-5.6.
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
