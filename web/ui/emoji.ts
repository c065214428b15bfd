/**
 * The pattern of one emoji, for a RegExp with the flag u: a flag, a keycap, a character with emoji presentation or
 * a skin tone, or a sequence joined by ZWJ. With \p{RGI_Emoji} or Intl.Segmenter the browser would build tables,
 * and an opening page would wait for them.
 */
export const emojiPattern = '(?:\\p{RI}{2}|(?:\\p{Emoji}(?:\\p{EMod}|\\uFE0F\\u20E3?)|(?!\\p{RI})\\p{EPres})(?:[\\u{E0020}-\\u{E007F}]+|(?:\\u200D\\p{Emoji}(?:\\p{EMod}|\\uFE0F)?)+)?)'
