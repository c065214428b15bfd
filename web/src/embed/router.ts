import type { Route, Router } from '../route.js'

const nothing: Route = { account: '', conv: '', user: '', info: false, person: '', thread: 0, panel: '' }

/** The route of one element. The address and the history of the page are left alone. */
export class ElementRouter implements Router {
  #route: Route = nothing
  readonly #opens: (to: Route) => boolean
  readonly #listeners = new Set<() => void>()

  /** `opens` is called before another conversation is shown. If it returns false, the route stays. */
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

  /** Shows a route that the page has set. */
  show(route: Partial<Route>): void {
    this.#route = { ...nothing, ...route }
    for (const f of this.#listeners) f()
  }
}
