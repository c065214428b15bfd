/** The length of a text, in Unicode code points, and the number of its last ones that are too many for a message of so many bytes in UTF-8; 0: the limit is not known. */
export function lengthOf(text: string, mostBytes: number): { readonly characters: number; readonly over: number } {
  let [characters, bytes, over] = [0, 0, 0]
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c >= 0xdc00 && c <= 0xdfff) continue // the second half of a pair, whose 4 bytes are counted with the first one
    characters++
    bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c >= 0xd800 && c <= 0xdbff ? 4 : 3
    if (mostBytes > 0 && bytes > mostBytes) over++
  }
  return { characters, over }
}
