const atEndPx = 2 // within this distance the view counts as being at the end
const nearEndPx = 50 // beyond this distance the button to the end is shown

/** The position of a row in the content, in px from the top of the content. Scrolling does not change it. */
interface Anchor {
  readonly key: string
  readonly top: number
  /**
   * The edge of the row that keeps its place when the row changes. It is the lower edge, so that nothing below the
   * row moves, unless the lower edge is out of view because the row is so tall.
   */
  readonly still: number
  readonly isBottom: boolean
}

/**
 * Controls the scroll position of a timeline; nothing else sets it. It remembers the row at the top of the view,
 * and puts that row back when rows above it were added, removed or changed, or the row itself changed. So the
 * person sees no jump. At the end of the content the view stays at the end.
 */
export class Scroller {
  readonly #view: HTMLElement
  readonly #content: HTMLElement
  #anchor: Anchor | undefined
  #at = 0 // the remembered scroll position
  #height = 0 // the remembered height of the view
  #drawn: readonly HTMLElement[] | undefined // the rows; undefined: not looked up since the last drawing
  #end = true
  #hidden = false // the view had no size at the last look

  constructor(view: HTMLElement, content: HTMLElement) {
    this.#view = view
    this.#content = content
  }

  /** Whether the last row was in view at the last look. */
  get isAtEnd(): boolean {
    return this.#end
  }

  /**
   * Whether the view has no size: on a phone the info panel covers the chat. Then nothing is in view, and nothing
   * can be measured.
   */
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

  /** Forgets the rows, because the page was drawn again and may have others. */
  drawn(): void {
    this.#drawn = undefined
  }

  /**
   * The remembered row at the top of the view, and how far its top is below the top of the view, in px; undefined:
   * the view is at the end.
   */
  get place(): { readonly key: string; readonly belowPx: number } | undefined {
    return this.#end || !this.#anchor ? undefined : { key: this.#anchor.key, belowPx: this.#anchor.top - this.#at }
  }

  /**
   * Remembers the row in view. It is called after each scroll, and before and after each drawing. A view that was
   * hidden is first restored by restore.
   */
  remember(): void {
    if (this.isHidden) this.#hidden = true
    if (this.#hidden) return
    const { scrollTop, clientHeight } = this.#view
    // If only the height of the view has changed, the composer has grown: a view at the end still counts as being
    // there.
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

  /**
   * Puts the remembered row back in its place after the content has changed. `sticky`: if the view was at the end,
   * it goes to the end.
   */
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
      // Counted from the remembered position: if the content became shorter, the browser has already moved the
      // view.
      if (wasHidden || Math.abs(moved) >= 0.5) this.#view.scrollTop = this.#at + moved
    }
    this.remember()
  }

  /** Makes the upper edge of the row at the top of the view keep its place at the next change, even at the end. */
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

  /**
   * Brings a row into view: its top `below` px under the top of the view, or its middle to the middle. It returns
   * false if the row is not drawn, or the view is hidden.
   */
  toRow(key: string, below: number | 'middle'): boolean {
    const row = this.#find(key)
    if (!row || this.isHidden) return false
    const inset = below === 'middle' ? Math.max(0, (this.#view.clientHeight - row.offsetHeight) / 2) : below
    this.#view.scrollTop += row.getBoundingClientRect().top - this.#view.getBoundingClientRect().top - inset
    this.remember()
    return true
  }

  /**
   * Returns the key of the last row whose lower edge is in view or above it. A <petrel-chat> element may reach
   * below the window.
   */
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

/** Returns the first of n indexes where f holds, by binary search; n: there is none. */
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
