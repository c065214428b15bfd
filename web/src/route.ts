/**
 * The route of the page, in the part of its address after the #:
 *
 *   #/                       the log-in page
 *   #/alice                  the list of conversations of the account alice
 *   #/alice/c/CONV           a conversation;   #/alice/c/CONV/info   with its info panel
 *   #/alice/c/CONV/t/5       with the thread of message 5
 *   #/alice/c/CONV/p/bob     with the profile of bob;   #/alice/c/CONV/info/bob   which the info panel has opened
 *   #/alice/u/bob            the direct conversation with bob, even before its first message
 *   #/alice/settings         settings;   #/alice/devices   devices
 *
 * The account is in the address, so a tab stays with its account, and tabs with several accounts can be open.
 */
export interface Route {
  readonly account: string // '': no account
  readonly conv: string
  readonly user: string
  readonly info: boolean
  readonly person: string // the user whose profile is shown, instead of the info panel; '': none
  readonly thread: number // seq of the root of the open thread; 0: none
  readonly panel: '' | 'settings' | 'devices'
}

const nothing: Route = { account: '', conv: '', user: '', info: false, person: '', thread: 0, panel: '' }

export function parseRoute(hash: string): Route {
  const [account = '', kind = '', id = '', more = '', root = ''] = hash.replace(/^#\/?/, '').split('/').map(decode)
  if (kind === 'settings' || kind === 'devices') return { ...nothing, account, panel: kind }
  return { ...nothing, account, conv: kind === 'c' ? id : '', user: kind === 'u' ? id : '', info: more === 'info', person: more === 'info' || more === 'p' ? root : '', thread: more === 't' && /^[1-9]\d{0,14}$/.test(root) ? Number(root) : 0 }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}

/** Returns the address of a route. It begins with #/. */
export function address(to: Partial<Route>): string {
  const { account, conv, user, info, person, thread, panel } = { ...nothing, ...to }
  const parts = [account, ...(conv ? ['c', conv] : user ? ['u', user] : panel ? [panel] : []), ...(info ? ['info', ...person ? [person] : []] : person ? ['p', person] : thread > 0 ? ['t', String(thread)] : [])]
  return `#/${parts.map(encodeURIComponent).join('/')}`
}

/** Goes to another route. With replacing it takes the place of the present route in the history of the browser. */
export function go(to: Partial<Route>, replacing = false): void {
  if (address(to) === address(parseRoute(location.hash))) return
  if (replacing) {
    history.replaceState(null, '', address(to))
    dispatchEvent(new HashChangeEvent('hashchange'))
  } else location.hash = address(to)
}

function subscribe(f: () => void): () => void {
  addEventListener('hashchange', f)
  return () => removeEventListener('hashchange', f)
}

let known: { readonly hash: string; readonly route: Route } = { hash: '', route: nothing }

/** Returns the present route: the same object while the address is the same. */
export function route(): Route {
  if (location.hash !== known.hash) known = { hash: location.hash, route: parseRoute(location.hash) }
  return known.route
}

/** Holds the route: which part of the chat is shown. */
export interface Router {
  /** Returns the present route. It is the same object until the route changes. */
  readonly route: () => Route
  /**
   * Goes to another route. With replacing it takes the place of the present route in the history, if the router has
   * one.
   */
  readonly go: (to: Partial<Route>, replacing?: boolean) => void
  readonly subscribe: (changed: () => void) => () => void
}

/** The router of the web chat, which keeps the route in the address of the page. */
export const addressRouter: Router = { route, go, subscribe }
