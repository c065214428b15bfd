// Standard base64 with padding, as the JSON of the wire has it (P-1.4). The core knows no
// platform, and not every one has a function for this.

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const values: Readonly<Record<string, number>> = Object.fromEntries([...digits].map((d, i) => [d, i]))

export function toBase64(bytes: Uint8Array): string {
  let out = ''
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i
    const n = (bytes[i] ?? 0) << 16 | (bytes[i + 1] ?? 0) << 8 | (bytes[i + 2] ?? 0)
    out += digits.charAt(n >> 18) + digits.charAt(n >> 12 & 63) + (left > 1 ? digits.charAt(n >> 6 & 63) : '=') + (left > 2 ? digits.charAt(n & 63) : '=')
  }
  return out
}

/** It throws an Error if the text is not base64. */
export function fromBase64(text: string): Uint8Array {
  const length = text.endsWith('==') ? text.length - 2 : text.endsWith('=') ? text.length - 1 : text.length
  const out = new Uint8Array(length * 3 >> 2)
  let bits = 0
  let n = 0
  let at = 0
  for (let i = 0; i < length; i++) {
    const v = values[text.charAt(i)]
    if (v === undefined) throw new Error('a frame has data that is not base64')
    n = (n << 6 | v) & 0xffff
    bits += 6
    if (bits >= 8) {
      bits -= 8
      out[at++] = n >> bits & 0xff
    }
  }
  return out
}
