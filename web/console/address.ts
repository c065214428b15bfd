/**
 * The route of the console, in the part of its address behind /admin/:
 *
 *   /admin/                      the overview;  ?node=n2  with the details of that node
 *   /admin/users?prefix=al       a list, with its filters and the begin of its page
 *   /admin/users/alice           one item of the list
 *   /admin/enroll#k=CODE         the page where a person becomes an operator
 *
 * The page, its item and its filters are in the address, so Back, a reload and a copied link keep them.
 */
import { useSyncExternalStore } from 'react'

export interface Address {
  readonly page: string // '': the overview
  readonly id: string // '': the list
  readonly query: Readonly<Record<string, string>>
}

const base = '/admin/'

export function parseAddress(path: string, search: string): Address {
  const [page = '', id = ''] = path.slice(base.length).split('/').map(decode)
  return { page, id, query: Object.fromEntries(new URLSearchParams(search)) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return ''
  }
}

export function addressOf(page: string, id = '', query: Readonly<Record<string, string>> = {}): string {
  const filled = Object.entries(query).filter(([, value]) => value !== '')
  return base + [page, ...(id ? [id] : [])].map(encodeURIComponent).join('/') + (filled.length > 0 ? `?${new URLSearchParams(filled).toString()}` : '')
}

const moved = 'petrel-moved'

/**
 * Goes to an address of the console. With replacing it takes the place of the present address in the history of the
 * browser.
 */
export function go(to: string, replacing = false): void {
  if (to === location.pathname + location.search) return
  history[replacing ? 'replaceState' : 'pushState'](null, '', to)
  dispatchEvent(new Event(moved))
}

/** Sets values in the query of the present address, as go does; '' removes one. */
export function narrow(change: Readonly<Record<string, string>>, replacing = false): void {
  const { page, id, query } = address()
  go(addressOf(page, id, { ...query, ...change }), replacing)
}

let known: { readonly href: string; readonly address: Address } | undefined

/** Returns the present address. It is the same object until path or query change. */
export function address(): Address {
  const href = location.pathname + location.search
  if (known?.href !== href) known = { href, address: parseAddress(location.pathname, location.search) }
  return known.address
}

function subscribe(f: () => void): () => void {
  addEventListener('popstate', f)
  addEventListener(moved, f)
  return () => {
    removeEventListener('popstate', f)
    removeEventListener(moved, f)
  }
}

export function useAddress(): Address {
  return useSyncExternalStore(subscribe, address)
}
