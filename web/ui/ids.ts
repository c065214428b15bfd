/** Returns a random id of 32 hex digits. `crypto.randomUUID` exists only in pages with TLS or on localhost. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}
