/**
 * Where a client may connect, best first: what the server said last, and then the URL that it
 * was made with. A round tries each of them once. Spec: P-3.7, S-2.1.
 */
export interface Places {
  readonly given: string
  readonly speaks: readonly string[] // schemes
  list: string[] // never empty
  readonly silent: Set<string> // did not answer when they were tried last, or fell silent
  left: string[] // of this round, still to be tried
}

export function newPlaces(given: string, speaks: readonly string[]): Places {
  return { given, speaks, list: [given], silent: new Set(), left: [] }
}

/**
 * Begins a round; without is an address that is left out, or ''. Others of its host come
 * last, and those that were silent.
 */
export function beginRound(p: Places, without: string): void {
  const lost = part(without, 'host')
  const last = (a: string): boolean => p.silent.has(a) || lost !== '' && part(a, 'host') === lost
  const all = p.list.filter((a) => a !== without)
  p.left = [...all.filter((a) => !last(a)), ...all.filter(last)]
}

/** Takes what the server says that is connected at addr; nothing changes nothing. */
export function welcomedAt(p: Places, addr: string, gateways: readonly string[]): void {
  p.silent.delete(addr)
  if (gateways.length === 0) return
  p.list = [...new Set([...gateways, p.given])].filter((a) => speaks(p, a))
  for (const a of p.silent) if (!p.list.includes(a)) p.silent.delete(a)
}

/** Puts an address that sends its clients to the others behind them. */
export function sendsAway(p: Places, addr: string): void {
  if (p.list.includes(addr)) p.list = [...p.list.filter((a) => a !== addr), addr]
}

/** Whether the client may use an address: it has a transport for it, and does not lose TLS. */
function speaks(p: Places, addr: string): boolean {
  const scheme = part(addr, 'scheme')
  return p.speaks.includes(scheme) && part(addr, 'host') !== '' && (isSecure(scheme) || !isSecure(part(p.given, 'scheme')))
}

function isSecure(scheme: string): boolean {
  return ['wss', 'https', 'tls'].includes(scheme)
}

/** The scheme or the host of an address, without the port; '' if it has none. */
function part(address: string, which: 'scheme' | 'host'): string {
  return /^(?<scheme>[a-z]+):\/\/(?:[^@/?#]*@)?(?<host>\[[^\]]*\]|[^:/?#]*)/i.exec(address)?.groups?.[which]?.toLowerCase() ?? ''
}
