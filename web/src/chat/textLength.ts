/**
 * Returns the length of a text in Unicode code points, and how many of its last code points do not fit mostBytes in
 * UTF-8; mostBytes 0: the limit is not known.
 */
export function lengthOf(text: string, mostBytes: number): { readonly characters: number; readonly over: number } {
  let [characters, bytes, over] = [0, 0, 0]
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c >= 0xdc00 && c <= 0xdfff) continue // the second half of a surrogate pair; the first half counts all 4 bytes
    characters++
    bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c >= 0xd800 && c <= 0xdbff ? 4 : 3
    if (mostBytes > 0 && bytes > mostBytes) over++
  }
  return { characters, over }
}
