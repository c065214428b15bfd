// Base64 with padding, as in the JSON of the wire (P-1.4). All browsers and Node have these functions.
declare function atob(text: string): string
declare function btoa(text: string): string

export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''))
}

/** Decodes a text. It throws an Error if the text is not base64. */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0))
}
