const atEndPx = 2 // within this the view sticks to the newest message
const nearEndPx = 50 // beyond this the way back to it is offered

/** The position of a row: its distance from the top of the content, in px, which scrolling does not change. */
interface Anchor {
  readonly key: string
  readonly top: number
  /** The position of the edge that stands still. It is the lower one, so that nothing below the row moves when the row changes, unless the row is so tall that its lower edge is not in view. */
  readonly still: number
  readonly isBottom: boolean
}

/**
 * The one owner of the scroll position of a timeline. It remembers the row at the top of the
 * view, and puts it back there when rows have come, gone or changed above it, or when it has
 * changed itself: the person sees no jump. At the end it stays at the end.
 */
export class Scroller {
  readonly #view: HTMLElement
  readonly #content: HTMLElement
  #anchor: Anchor | undefined
  #at = 0 // the scroll position when it was remembered
  #height = 0 // of the view, at that time
  #drawn: readonly HTMLElement[] | undefined // the rows, if they were looked for since the last drawing
  #end = true
  #hidden = false // the view had no size when it was looked at last

  constructor(view: HTMLElement, content: HTMLElement) {
    this.#view = view
    this.#content = content
  }

  /** Whether the last row is in view, as far as the page knows by now. */
  get isAtEnd(): boolean {
    return this.#end
  }

  /** Whether the view has no size: on a phone the info covers the chat. Nothing is in view then, and nothing can be measured. */
  get isHidden(): boolean {
    return this.#view.clientHeight === 0
  }

  get isNearEnd(): boolean {
    return this.below <= nearEndPx
  }

  /** The height of the content above the view, in px. */
  get above(): number {
    return this.#view.scrollTop
  }

  /** The height of the content below the view, in px. */
  get below(): number {
    return this.#view.scrollHeight - this.#view.clientHeight - this.#view.scrollTop
  }

  get height(): number {
    return this.#view.clientHeight
  }

  /** Forgets the rows: the page was drawn again, and there may be other rows. */
  drawn(): void {
    this.#drawn = undefined
  }

  /** The row at the top of the view when it was remembered, and how far below that its top is, in px; undefined: the view is at the end. */
  get place(): { readonly key: string; readonly belowPx: number } | undefined {
    return this.#end || !this.#anchor ? undefined : { key: this.#anchor.key, belowPx: this.#anchor.top - this.#at }
  }

  /** Records the row in view: after each scroll, and before and after each drawing. A view that was hidden is restored first. */
  remember(): void {
    if (this.isHidden) this.#hidden = true
    if (this.#hidden) return
    const { scrollTop, clientHeight } = this.#view
    // The composer has grown, and the view is to follow: who was at the end has not left it.
    const isResized = clientHeight !== this.#height && scrollTop === this.#at
    if (!this.#end || !isResized) {
      this.#end = this.below <= atEndPx
      this.#height = clientHeight
    }
    this.#at = scrollTop
    const { top, bottom } = this.#view.getBoundingClientRect()
    const row = this.#rowAt(top)
    this.#anchor = row && this.#anchorAt(row, row.getBoundingClientRect().bottom <= bottom)
  }

  /** Puts the view back after the content has changed. `sticky`: to the end, if it was there. */
  restore(sticky: boolean): void {
    const wasHidden = this.#hidden
    this.#hidden = this.isHidden
    if (this.#hidden) return
    this.#height = this.#view.clientHeight
    if (this.#end && sticky) {
      this.#view.scrollTop = this.#view.scrollHeight
    } else if (this.#anchor) {
      const row = this.#find(this.#anchor.key)
      const moved = row ? this.#anchorAt(row, this.#anchor.isBottom).still - this.#anchor.still : 0
      // From where it was: if the content became shorter, the browser has moved the view already.
      if (wasHidden || Math.abs(moved) >= 0.5) this.#view.scrollTop = this.#at + moved
    }
    this.remember()
  }

  /** With the next change the upper edge of the row at the top of the view stands still, also at the end. */
  holdTop(): void {
    this.remember()
    if (this.#anchor && this.#anchor.isBottom) this.#anchor = { ...this.#anchor, still: this.#anchor.top, isBottom: false }
    this.#end = false
  }

  toEnd(): void {
    this.#end = true
    this.#view.scrollTop = this.#view.scrollHeight
    this.remember()
  }

  /** Brings a row into view: its top so many px below that of the view, or its middle to the middle. False: it is not drawn, or the view is hidden. */
  toRow(key: string, below: number | 'middle'): boolean {
    const row = this.#find(key)
    if (!row || this.isHidden) return false
    const inset = below === 'middle' ? Math.max(0, (this.#view.clientHeight - row.offsetHeight) / 2) : below
    this.#view.scrollTop += row.getBoundingClientRect().top - this.#view.getBoundingClientRect().top - inset
    this.remember()
    return true
  }

  /** The key of the last row whose bottom is in view or above it. An element of a page may be half below the window. */
  lastSeen(): string | undefined {
    if (this.isHidden) return undefined
    const bottom = Math.min(this.#view.getBoundingClientRect().bottom, innerHeight) + atEndPx
    const rows = this.#rows()
    const at = firstWhere(rows.length, (i) => (rows[i] as HTMLElement).getBoundingClientRect().bottom > bottom)
    return rows[at - 1]?.dataset['key']
  }

  #rows(): readonly HTMLElement[] {
    this.#drawn ??= [...this.#content.querySelectorAll<HTMLElement>('[data-key]')]
    return this.#drawn
  }

  #rowAt(top: number): HTMLElement | undefined {
    const rows = this.#rows()
    return rows[firstWhere(rows.length, (i) => (rows[i] as HTMLElement).getBoundingClientRect().bottom > top)]
  }

  #find(key: string): HTMLElement | undefined {
    return this.#rows().find((row) => row.dataset['key'] === key)
  }

  #anchorAt(row: HTMLElement, isBottom: boolean): Anchor {
    const box = row.getBoundingClientRect()
    const { top } = this.#content.getBoundingClientRect()
    return { key: row.dataset['key'] ?? '', top: box.top - top, still: (isBottom ? box.bottom : box.top) - top, isBottom }
  }
}

/** The first of n indexes from which on f holds; n: there is none. */
function firstWhere(n: number, f: (i: number) => boolean): number {
  let low = 0
  let high = n
  while (low < high) {
    const mid = (low + high) >>> 1
    if (f(mid)) high = mid
    else low = mid + 1
  }
  return low
}
