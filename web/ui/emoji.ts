/**
 * The pattern of one emoji, for a RegExp with the flag u: a flag, a key, a sign with its presentation or a tone of skin, or
 * several that are joined. With \p{RGI_Emoji} and Intl.Segmenter the browser would build tables, for which a page that opens waits.
 */
export const emojiPattern = '(?:\\p{RI}{2}|(?:\\p{Emoji}(?:\\p{EMod}|\\uFE0F\\u20E3?)|(?!\\p{RI})\\p{EPres})(?:[\\u{E0020}-\\u{E007F}]+|(?:\\u200D\\p{Emoji}(?:\\p{EMod}|\\uFE0F)?)+)?)'
