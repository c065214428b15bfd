/** A skin tone: 0 for none, then from light to dark. */
export type Tone = 0 | 1 | 2 | 3 | 4 | 5

export const tones: readonly Tone[] = [0, 1, 2, 3, 4, 5]

/** Returns an emoji in a skin tone. */
export function toned(sign: string, tone: Tone): string {
  return tone === 0 ? sign : sign.replace(/(\p{Emoji_Modifier_Base})\ufe0f?/gu, `$1${String.fromCodePoint(0x1f3fa + tone)}`)
}

/** Returns an emoji without skin tone and variation selector, to compare emojis. */
export function plainSign(sign: string): string {
  return sign.replace(/[\u{1f3fb}-\u{1f3ff}\ufe0f]/gu, '')
}
