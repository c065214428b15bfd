/** A piece of a message: a text, or a mark with pieces in it. */
export type Piece =
  | string
  | { readonly kind: 'bold' | 'italic' | 'strike'; readonly of: readonly Piece[] }
  | { readonly kind: 'code' | 'block'; readonly text: string }
  | { readonly kind: 'link'; readonly text: string; readonly to: string }
  | { readonly kind: 'mention'; readonly user: string }

const block = /\n?```(?:[\w+-]*\n)?([\s\S]+?)\n?```\n?/
const code = /`([^`\n]+)`/
const link = /(?:\bhttps?:\/\/|(?<![A-Za-z0-9@./-])www\.[a-z0-9-]+\.)[^\s<>"'“”‘’，。；！？、（）《》【】]+|(?<![A-Za-z0-9.%+@/-])[a-z0-9][\w.%+-]{0,63}@(?:[a-z0-9-]{1,63}\.)+[a-z]{2,}/i
const mark = /\*\*(?=\S)(.+?\S|\S)\*\*|~~(?=\S)(.+?\S|\S)~~|(?<![\p{L}\p{N}_])_(?=\S)(.+?\S|\S)_(?![\p{L}\p{N}_])/u
const mention = /(?<![A-Za-z0-9_@.])@([A-Za-z0-9](?:[A-Za-z0-9._+@-]*[A-Za-z0-9])?)/

/**
 * Takes a text apart: ``` and ` for code, ** bold, _ italic, ~~ strike, addresses of pages and of mail, and @ for the
 * users that the message mentions. The pieces are drawn as elements; nothing is HTML.
 */
export function piecesOf(text: string, mentions: ReadonlySet<string>): readonly Piece[] {
  return split(text, block, ([, inner = '']) => ({ kind: 'block', text: inner }), (outside) =>
    split(outside, code, ([, inner = '']) => ({ kind: 'code', text: inner }), (words) => inline(words, mentions)))
}

function inline(text: string, mentions: ReadonlySet<string>): readonly Piece[] {
  return split(text, link, ([address]) => linkOf(address), (words) =>
    split(words, mark, ([, bold, strike, italic], whole) => ({
      kind: bold !== undefined ? 'bold' : strike !== undefined ? 'strike' : 'italic', of: inline(bold ?? strike ?? italic ?? whole, mentions),
    }), (rest) => split(rest, mention, ([whole, user = '']) => mentions.has(user) || mentions.has('*') && user === 'all' ? { kind: 'mention', user } : whole, (plain) => [plain])))
}

/** A link without the signs that end the sentence around it. */
function linkOf(found: string): Piece | readonly Piece[] {
  let end = found.length
  while (end > 0) {
    const sign = found[end - 1] ?? ''
    const closes = sign === ')' && count(found.slice(0, end), '(') < count(found.slice(0, end), ')')
    if (!closes && !/[.,;:!?*_~]/.test(sign)) break
    end--
  }
  const text = found.slice(0, end)
  const to = /^https?:/i.test(text) ? text : /^www\./i.test(text) ? `https://${text}` : `mailto:${text}`
  if (!URL.canParse(to)) return found
  return end === found.length ? { kind: 'link', text, to } : [{ kind: 'link', text, to }, found.slice(end)]
}

function count(text: string, sign: string): number {
  return text.split(sign).length - 1
}

/** The pieces of what matches, and those that rest makes of what is between. */
function split(text: string, pattern: RegExp, make: (match: readonly [string, ...(string | undefined)[]], whole: string) => Piece | readonly Piece[], rest: (text: string) => readonly Piece[]): readonly Piece[] {
  const pieces: Piece[] = []
  let at = 0
  for (const match of text.matchAll(new RegExp(pattern, `${pattern.flags}g`))) {
    if (match.index > at) pieces.push(...rest(text.slice(at, match.index)))
    const made = make(match as unknown as readonly [string, ...(string | undefined)[]], match[0])
    if (Array.isArray(made)) pieces.push(...made as readonly Piece[])
    else pieces.push(made as Piece)
    at = match.index + match[0].length
  }
  if (at < text.length) pieces.push(...rest(text.slice(at)))
  return pieces
}

const word = /(?!ℹ)\p{L}/u // the one sign that is a letter and an emoji
const ascii = /^[\x00-\x7f]*$/
let onlyEmoji: RegExp | undefined // made when it is needed: it knows some 3,700 emojis, and a chat that opens would wait for it

/** Whether a text is one to three emojis and nothing else: they are drawn large. */
export function isEmojiOnly(text: string): boolean {
  if (text.length > 60 || word.test(text) || ascii.test(text)) return false
  onlyEmoji ??= new RegExp('^(?:\\p{RGI_Emoji}\\s*){1,3}$', 'v')
  return onlyEmoji.test(text)
}

/** A text on one line, without its marks. */
export function plainText(text: string): string {
  return text.slice(0, 300).replace(/```(?:[\w+-]*\n)?|[`~]{1,3}|\*\*/g, '').replace(/\s+/g, ' ').trim()
}
