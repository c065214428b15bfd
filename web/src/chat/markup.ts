import { emojiPattern } from '../../ui/emoji.js'
import { linksIn } from './links.js'
import { alphanumericAnd, isAlphanumeric, isBlank, isLineEnd, Reading } from './textReader.js'

/**
 * A piece of a message: a plain text, or a part that is drawn as an element. Bold, italic and strike contain pieces.
 */
export type Piece =
  | string
  | { readonly kind: 'bold' | 'italic' | 'strike'; readonly of: readonly Piece[] }
  | { readonly kind: 'code' | 'block'; readonly text: string }
  | { readonly kind: 'link'; readonly text: string; readonly to: string }
  | { readonly kind: 'mention'; readonly user: string }

const wordSign = /[\p{L}\p{N}_]/u
const inWord = alphanumericAnd('_')
const isWordSign = (point: number | undefined): boolean => point !== undefined && (point < 128 ? inWord(point) : wordSign.test(String.fromCodePoint(point)))
const inLanguage = alphanumericAnd('_+-')
const beforeMention = alphanumericAnd('_@.')
const inMention = alphanumericAnd('._+@-')
const [lineFeed, backtick] = [10, 96]

interface Mark {
  readonly kind: 'bold' | 'italic' | 'strike'
  readonly sign: number
  readonly length: number
}
const bold: Mark = { kind: 'bold', sign: 42, length: 2 }
const strike: Mark = { kind: 'strike', sign: 126, length: 2 }
const italic: Mark = { kind: 'italic', sign: 95, length: 1 }
const markOf = (c: number): Mark | undefined => c === bold.sign ? bold : c === strike.sign ? strike : c === italic.sign ? italic : undefined

/**
 * Parses a text into pieces: ``` and ` for code, ** bold, _ italic, ~~ strike, web and mail addresses, and @ for
 * the users that the message mentions. The pieces are drawn as elements; nothing is HTML. The parser reads each
 * character a bounded number of times.
 */
export function piecesOf(text: string, mentions: ReadonlySet<string>): readonly Piece[] {
  return new Parser(text, mentions).pieces
}

/** Returns how many characters the parser reads, repeated reads included. */
export function stepsOf(text: string, mentions: ReadonlySet<string>): number {
  return new Parser(text, mentions).steps
}

class Parser {
  readonly pieces: Piece[] = []
  readonly #mentions: ReadonlySet<string>
  steps = 0

  constructor(text: string, mentions: ReadonlySet<string>) {
    this.#mentions = mentions
    this.#read(text, (r) => this.#blocks(r))
  }

  #read(text: string, parse: (r: Reading) => void): void {
    const r = new Reading(text)
    parse(r)
    this.steps += r.steps
  }

  /**
   * Parses blocks of code: ``` around lines, with the name of a language after the first ```. A line feed on either
   * side of a mark belongs to the mark.
   */
  #blocks(r: Reading): void {
    let at = 0
    for (let open = r.find(fence, 0); open >= 0; open = r.find(fence, at)) {
      const named = r.skip(open + 3, inLanguage)
      let begin = r.at(named) === lineFeed ? named + 1 : open + 3
      let close = r.find(fence, begin + 1)
      if (close < 0) close = r.find(fence, (begin = open + 3) + 1) // no line feed follows, so the name is the content
      if (close < 0) break
      this.#code(r.text.slice(at, open > at && r.at(open - 1) === lineFeed ? open - 1 : open))
      this.pieces.push({ kind: 'block', text: r.text.slice(begin, close - 1 > begin && r.at(close - 1) === lineFeed ? close - 1 : close) })
      at = close + 3
      if (r.at(at) === lineFeed) at++
    }
    this.#code(r.text.slice(at))
  }

  /** Parses code inside a line: ` around a part of it. */
  #code(text: string): void {
    this.#read(text, (r) => {
      let at = 0
      for (let open = r.find('`', 0); open >= 0;) {
        const close = r.skip(open + 1, (c) => c !== backtick && c !== lineFeed)
        if (close >= r.length) break
        if (r.at(close) === lineFeed) open = r.find('`', close)
        else if (close === open + 1) open = close
        else {
          this.#inline(r.text.slice(at, open), noMarks, this.pieces)
          this.pieces.push({ kind: 'code', text: r.text.slice(open + 1, close) })
          at = close + 1
          open = r.find('`', at)
        }
      }
      this.#inline(r.text.slice(at), noMarks, this.pieces)
    })
  }

  /**
   * Parses links, and marks between them. A mark is not parsed again inside itself, so marks are at most three deep.
   */
  #inline(text: string, within: readonly Mark[], to: Piece[]): void {
    this.#read(text, (r) => {
      let at = 0
      for (const { from, end, to: address } of linksIn(r)) {
        this.#marked(r.text.slice(at, from), within, to)
        to.push({ kind: 'link', text: r.text.slice(from, end), to: address })
        at = end
      }
      this.#marked(r.text.slice(at), within, to)
    })
  }

  #marked(text: string, within: readonly Mark[], to: Piece[]): void {
    this.#read(text, (r) => {
      const next = { bold: 0, strike: 0, italic: 0 } // where each mark closes next; it only increases
      let lineEnd = 0 // the end of the line; it only increases too
      let at = 0
      for (let i = 0; i < r.length; i++) {
        const m = markOf(r.at(i))
        if (!m || within.includes(m) || !opens(r, i, m)) continue
        const close = next[m.kind] = closing(r, m, Math.max(next[m.kind], i + m.length + 1))
        lineEnd = r.skip(Math.max(lineEnd, i), inLine)
        if (close >= r.length || lineEnd < close) continue
        this.#mentioned(r.text.slice(at, i), to)
        const of: Piece[] = []
        this.#inline(r.text.slice(i + m.length, close), [...within, m], of)
        to.push({ kind: m.kind, of })
        at = close + m.length
        i = at - 1
      }
      this.#mentioned(r.text.slice(at), to)
    })
  }

  #mentioned(text: string, to: Piece[]): void {
    this.#read(text, (r) => {
      let at = 0
      for (let i = r.find('@', 0); i >= 0;) {
        let end = i + 1
        if (isAlphanumeric(r.at(end)) && !(i > 0 && beforeMention(r.at(i - 1)))) {
          end = r.skip(end, inMention)
          while (!isAlphanumeric(r.at(end - 1))) end--
          const user = r.text.slice(i + 1, end)
          if (this.#mentions.has(user) || this.#mentions.has('*') && user === 'all') {
            say(r.text.slice(at, i), to)
            to.push({ kind: 'mention', user })
            at = end
          }
        }
        i = r.find('@', end)
      }
      say(r.text.slice(at), to)
    })
  }
}

const fence = '```'
const noMarks: readonly Mark[] = []
const inLine = (c: number): boolean => !isLineEnd(c)

/** Adds a plain text. It joins the text before it, so that there is at most one text between two elements. */
function say(text: string, to: Piece[]): void {
  const before = to.at(-1)
  if (typeof before === 'string') to[to.length - 1] = before + text
  else if (text !== '') to.push(text)
}

function isMark(r: Reading, i: number, { sign, length }: Mark): boolean {
  return r.at(i) === sign && (length === 1 || r.at(i + 1) === sign)
}

/**
 * Whether a mark begins at i: a character that is no blank follows it, and before an _ there is no letter, digit or _.
 */
function opens(r: Reading, i: number, m: Mark): boolean {
  const after = r.at(i + m.length)
  return isMark(r, i, m) && !Number.isNaN(after) && !isBlank(after) && (m.kind !== 'italic' || !isWordSign(r.pointBefore(i)))
}

/**
 * Returns the first position at or after `from` where a mark ends, or the length of the text: no blank is before it,
 * and after an _ there is no letter, digit or _.
 */
function closing(r: Reading, m: Mark, from: number): number {
  let i = from
  while (i < r.length && !(isMark(r, i, m) && !isBlank(r.at(i - 1)) && (m.kind !== 'italic' || !isWordSign(r.point(i + 1))))) i++
  return i
}

const word = /(?!ℹ)\p{L}/u // ℹ is both a letter and an emoji
const ascii = /^[\x00-\x7f]*$/
const onlyEmoji = new RegExp(`^(?:${emojiPattern}\\s*){1,3}$`, 'u')

/** Whether a text is one to three emojis and nothing else. Such a text is drawn large. */
export function isEmojiOnly(text: string): boolean {
  return text.length <= 60 && !word.test(text) && !ascii.test(text) && onlyEmoji.test(text)
}

const mostPlain = 300 // the most code units of a text on one line

/**
 * Returns the first mostPlain code units of a text on one line, without the marks of code, bold and strike. nameOf
 * returns the name of a mentioned user; undefined: the message mentions no user with this id.
 */
export function plainText(text: string, nameOf: (user: string) => string | undefined = nobody): string {
  const named = nameOf === nobody ? text.slice(0, mostPlain) : text.slice(0, mostPlain).replace(/(?<![\w@.])@([A-Za-z0-9][\w.+@-]*)/g, (whole, word: string) => {
    const user = word.replace(/[^A-Za-z0-9]+$/, '')
    const name = nameOf(user)
    return name === undefined ? whole : `@${name}${word.slice(user.length)}`
  })
  return named.replace(/```(?:[\w+-]*\n)?|[`~]{1,3}|\*\*/g, '').replace(/\s+/g, ' ').trim()
}

const nobody = (): undefined => undefined
