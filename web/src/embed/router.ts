import type { Route, Router } from '../route.js'

const nothing: Route = { account: '', conv: '', user: '', info: false, thread: 0, panel: '' }

/** The routes of one element. The address of the page, and its history, are the page's. */
export class ElementRouter implements Router {
  #route: Route = nothing
  readonly #opens: (to: Route) => boolean
  readonly #listeners = new Set<() => void>()

  /** opens is asked before another conversation is shown, and may refuse. */
  constructor(opens: (to: Route) => boolean) {
    this.#opens = opens
  }

  readonly route = (): Route => this.#route

  readonly go = (to: Partial<Route>): void => {
    const next = { ...nothing, ...to, panel: '' } as const
    const same = next.conv === this.#route.conv && next.user === this.#route.user
    if (same || this.#opens(next)) this.show(next)
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed)
    return () => this.#listeners.delete(changed)
  }

  /** Shows what the page says. */
  show(route: Partial<Route>): void {
    this.#route = { ...nothing, ...route }
    for (const f of this.#listeners) f()
  }
}
