/**
 * A text from another user, read by position. All parsers of messages read it through `at`, `find` and `skip`,
 * which count each character read. So a test can check that the work grows no faster than the length of any text
 * (parsing.test.ts).
 */
export class Reading {
  readonly text: string
  steps = 0

  constructor(text: string) {
    this.text = text
  }

  get length(): number {
    return this.text.length
  }

  /** Returns the code unit at a position; NaN beyond the text. */
  at(i: number): number {
    this.steps++
    return this.text.charCodeAt(i)
  }

  /** Returns the code point at a position; undefined beyond the text. pointBefore returns the one that ends there. */
  point(i: number): number | undefined {
    this.steps++
    return this.text.codePointAt(i)
  }

  pointBefore(i: number): number | undefined {
    this.steps += 2
    const low = this.text.charCodeAt(i - 1)
    const pair = low >= 0xdc00 && low <= 0xdfff ? this.text.codePointAt(i - 2) : undefined
    return pair !== undefined && pair > 0xffff ? pair : i > 0 ? low : undefined
  }

  /** Returns the first position of a mark at or after `from`; -1: there is none. */
  find(mark: string, from: number): number {
    const found = this.text.indexOf(mark, from)
    this.steps += Math.max(1, (found < 0 ? this.length : found) - from)
    return found
  }

  /** Whether a word is at a position, in ASCII letters of any case. `word` is lower case. */
  has(word: string, i: number): boolean {
    this.steps += word.length
    return this.text.slice(i, i + word.length).toLowerCase() === word
  }

  /** Returns the end of the run of characters of a class that begins at a position. */
  skip(from: number, isIn: (code: number) => boolean): number {
    let i = from
    while (i < this.length && isIn(this.at(i))) i++
    return i
  }
}

const signs = (of: string): ReadonlySet<number> => new Set(Array.from(of, (c) => c.charCodeAt(0)))

export const isDigit = (c: number): boolean => c >= 48 && c <= 57
export const isLetter = (c: number): boolean => c >= 97 && c <= 122 || c >= 65 && c <= 90
export const isAlphanumeric = (c: number): boolean => isLetter(c) || isDigit(c)

/** Returns a class of characters: ASCII letters, digits and some more. */
export function alphanumericAnd(more: string): (c: number) => boolean {
  const set = signs(more)
  return (c) => isAlphanumeric(c) || set.has(c)
}

/** Whether \s matches a code unit. */
export function isBlank(c: number): boolean {
  return c === 32 || c >= 9 && c <= 13 || c === 0xa0 || c >= 0x1680 && blanks.has(c)
}

const blanks = signs('\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff')

/** Whether a code unit ends a line. */
export function isLineEnd(c: number): boolean {
  return c === 10 || c === 13 || c === 0x2028 || c === 0x2029
}
