/**
 * What the page shows, as the part of its address after the #:
 *
 *   #/                       where people log in
 *   #/alice                  the list of conversations of the account alice
 *   #/alice/c/CONV           a conversation;   #/alice/c/CONV/info   with what is known of it
 *   #/alice/c/CONV/t/5       with the thread of the message 5
 *   #/alice/u/bob            the direct conversation with bob, also before there is one
 *   #/alice/settings         settings;   #/alice/devices   devices
 *
 * The account is in the address, so a tab stays with its account, and two live side by side.
 */
export interface Route {
  readonly account: string // '': nobody's
  readonly conv: string
  readonly user: string
  readonly info: boolean
  readonly thread: number // seq of its root; 0: none is open
  readonly panel: '' | 'settings' | 'devices'
}

const nothing: Route = { account: '', conv: '', user: '', info: false, thread: 0, panel: '' }

export function parseRoute(hash: string): Route {
  const [account = '', kind = '', id = '', more = '', root = ''] = hash.replace(/^#\/?/, '').split('/').map(decode)
  if (kind === 'settings' || kind === 'devices') return { ...nothing, account, panel: kind }
  return { ...nothing, account, conv: kind === 'c' ? id : '', user: kind === 'u' ? id : '', info: more === 'info', thread: more === 't' && /^[1-9]\d{0,14}$/.test(root) ? Number(root) : 0 }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}

/** The address of a route, which begins with #/. */
export function address(to: Partial<Route>): string {
  const { account, conv, user, info, thread, panel } = { ...nothing, ...to }
  const parts = [account, ...(conv ? ['c', conv] : user ? ['u', user] : panel ? [panel] : []), ...(info ? ['info'] : thread > 0 ? ['t', String(thread)] : [])]
  return `#/${parts.map(encodeURIComponent).join('/')}`
}

/** Goes to another route; replacing: Back does not come to the present one. */
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

/** The route now, the same object while the address is. */
export function route(): Route {
  if (location.hash !== known.hash) known = { hash: location.hash, route: parseRoute(location.hash) }
  return known.route
}

/** What of the chat is shown, and where it is kept. */
export interface Router {
  /** The route now, the same object while it stays. */
  readonly route: () => Route
  /** Goes to another route; replacing: Back does not come to the present one. */
  readonly go: (to: Partial<Route>, replacing?: boolean) => void
  readonly subscribe: (changed: () => void) => () => void
}

/** The routes of the page of the web chat: its address has them. */
export const addressRouter: Router = { route, go, subscribe }
