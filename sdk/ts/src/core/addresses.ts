/**
 * The addresses that a client may connect to, best first: those that the server announced last, then the URL
 * from the options. A round tries each once. Spec: P-3.7, S-2.1.
 */
export interface Addresses {
  readonly given: string
  readonly speaks: readonly string[] // schemes
  list: string[] // never empty
  readonly silent: Set<string> // addresses that did not answer in the last try, or fell silent
  left: string[] // addresses that this round has not tried yet
}

export function newAddresses(given: string, speaks: readonly string[]): Addresses {
  return { given, speaks, list: [given], silent: new Set(), left: [] }
}

/**
 * Begins a round. `without` is an address that is left out, or ''. Other addresses of its host, and silent ones,
 * come last.
 */
export function beginRound(p: Addresses, without: string): void {
  const lost = part(without, 'host')
  const last = (a: string): boolean => p.silent.has(a) || lost !== '' && part(a, 'host') === lost
  const all = p.list.filter((a) => a !== without)
  p.left = [...all.filter((a) => !last(a)), ...all.filter(last)]
}

/** Takes the addresses that the server at addr announces. An empty list leaves the known ones. */
export function welcomedAt(p: Addresses, addr: string, gateways: readonly string[]): void {
  p.silent.delete(addr)
  if (gateways.length === 0) return
  p.list = [...new Set([...gateways, p.given])].filter((a) => speaks(p, a))
  for (const a of p.silent) if (!p.list.includes(a)) p.silent.delete(a)
}

/** Moves an address whose server sends its clients away to the end. */
export function sendsAway(p: Addresses, addr: string): void {
  if (p.list.includes(addr)) p.list = [...p.list.filter((a) => a !== addr), addr]
}

/** Whether the client may use an address: the transport can connect to it, and it has TLS if the given URL has. */
function speaks(p: Addresses, addr: string): boolean {
  const scheme = part(addr, 'scheme')
  return p.speaks.includes(scheme) && part(addr, 'host') !== '' && (isSecure(scheme) || !isSecure(part(p.given, 'scheme')))
}

function isSecure(scheme: string): boolean {
  return ['wss', 'https', 'tls'].includes(scheme)
}

/** Returns the scheme or the host of an address, without the port; '' if it has none. */
function part(address: string, which: 'scheme' | 'host'): string {
  return /^(?<scheme>[a-z]+):\/\/(?:[^@/?#]*@)?(?<host>\[[^\]]*\]|[^:/?#]*)/i.exec(address)?.groups?.[which]?.toLowerCase() ?? ''
}
