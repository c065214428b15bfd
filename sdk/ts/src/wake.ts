/** As much of a browser as tells that the device was asleep, or has another network. */
export interface Page {
  addEventListener(event: string, f: () => void): void
  removeEventListener(event: string, f: () => void): void
  readonly document?: Page & { readonly visibilityState: string }
}

/**
 * Has f called when the device may have been asleep, or has another network. Where there is
 * no window, nothing does that. Spec: S-5.6.
 */
export function watchWakeUps(f: () => void, page: Partial<Page> = globalThis): () => void {
  const { document } = page
  if (!page.addEventListener || !document) return () => {}
  const onVisible = (): void => {
    if (document.visibilityState === 'visible') f()
  }
  for (const event of ['online', 'pageshow']) page.addEventListener(event, f)
  for (const event of ['visibilitychange', 'resume']) document.addEventListener(event, onVisible)
  return () => {
    for (const event of ['online', 'pageshow']) page.removeEventListener?.(event, f)
    for (const event of ['visibilitychange', 'resume']) document.removeEventListener(event, onVisible)
  }
}
