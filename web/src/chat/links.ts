import { alphanumericAnd, isAlphanumeric, isBlank, isLetter, type Reading } from './textReader.js'

/** An address in a text, without the punctuation of the sentence around it. */
export interface Link {
  readonly from: number
  readonly end: number
  readonly to: string
}

const longestLink = 2048 // code units; a longer one stays a text
const longestLocal = 64 // code units before the @ of a mail address
const longestLabel = 63 // code units of a part of a host name
const beforeWww = alphanumericAnd('@./-')
const beforeMail = alphanumericAnd('.%+@/-')
const inWord = alphanumericAnd('_')
const inLocal = alphanumericAnd('_.%+-')
const inLabel = alphanumericAnd('-')
const stops = new Set(Array.from('<>"\'“”‘’，。；！？、（）《》【】', (c) => c.charCodeAt(0)))
const inAddress = (c: number): boolean => !isBlank(c) && !stops.has(c)
const [at, dot, open, close] = Array.from('@.()', (c) => c.charCodeAt(0)) as [number, number, number, number]
const endings = new Set(Array.from('.,:;!?*_~', (c) => c.charCodeAt(0)))

/** Returns the web and mail addresses in a text, in order. */
export function linksIn(r: Reading): readonly Link[] {
  const links: Link[] = []
  const local = { end: 0, domainEnd: 0 } // end: of the last run of characters before a possible @; domainEnd: of the domain after it, 0: none
  for (let i = 0; i < r.length;) {
    const before = i > 0 ? r.at(i - 1) : NaN
    const end = pageEnd(r, i, before) || mailEnd(r, i, before, local)
    const link = end > 0 ? linkOf(r, i, end) : undefined
    if (link) links.push(link)
    i = end > 0 ? end : i + 1
  }
  return links
}

/** Returns the end of the web address that begins at i; 0: none. */
function pageEnd(r: Reading, i: number, before: number): number {
  const c = r.at(i) | 32
  if (c === 104 /* h */ && !inWord(before) && r.has('http', i)) {
    const s = r.has('s', i + 4) ? 1 : 0
    if (!r.has('://', i + 4 + s)) return 0
    const end = r.skip(i + 7 + s, inAddress)
    return end > i + 7 + s ? end : 0
  }
  if (c === 119 /* w */ && !beforeWww(before) && r.has('www.', i)) {
    const label = r.skip(i + 4, inLabel)
    if (label === i + 4 || r.at(label) !== dot) return 0
    const end = r.skip(label + 1, inAddress)
    return end > label + 1 ? end : 0
  }
  return 0
}

/** Returns the end of the mail address that begins at i; 0: none. */
function mailEnd(r: Reading, i: number, before: number, local: { end: number; domainEnd: number }): number {
  if (local.end <= i) {
    local.end = r.skip(i, inLocal)
    local.domainEnd = local.end > i && r.at(local.end) === at ? domainEnd(r, local.end + 1) : 0
  }
  return local.domainEnd > 0 && local.end - i <= longestLocal && isAlphanumeric(r.at(i)) && !beforeMail(before) ? local.domainEnd : 0
}

/**
 * Returns the end of the longest host name that begins at `from` and whose last part has at least two letters; 0:
 * none.
 */
function domainEnd(r: Reading, from: number): number {
  let found = 0
  for (let i = from; ;) {
    const letters = r.skip(i, isLetter)
    if (i > from && letters - i >= 2) found = letters
    const label = r.skip(letters, inLabel)
    if (label === i || label - i > longestLabel || r.at(label) !== dot) return found
    i = label + 1
  }
}

function linkOf(r: Reading, from: number, found: number): Link | undefined {
  if (found - from > longestLink) return undefined
  let opened = 0 // opened brackets minus closed ones
  for (let i = from; i < found; i++) {
    const c = r.at(i)
    opened += c === open ? 1 : c === close ? -1 : 0
  }
  let end = found
  for (; end > from; end--) {
    const c = r.at(end - 1)
    if (c === close && opened < 0) opened++
    else if (!endings.has(c)) break
  }
  const text = r.text.slice(from, end)
  const to = /^https?:/i.test(text) ? text : /^www\./i.test(text) ? `https://${text}` : `mailto:${text}`
  return URL.canParse(to) ? { from, end, to } : undefined
}
