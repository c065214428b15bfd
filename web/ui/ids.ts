/** A random id of 32 signs. `crypto.randomUUID` is there only for pages with TLS and those of this host. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}
