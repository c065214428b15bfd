import { show, slotAt } from './conversation.js'
import { defined, type Entry, type Quote } from './frames.js'
import { askHistory, isDue, readsFull, retryAt } from './request.js'
import { rewritten, targetOf } from './rewrite.js'
import type { Conv, Core, Live } from './state.js'

const maxQuotes = 512 // the most quotes of a conversation; when there are more, all are dropped and asked for again. Spec: S-16.2
const maxQuoteBytes = 256 // the most bytes of a body, P-5.9

/** The quote of an entry that others answer. none: the user cannot see it. asked: the client asks the server. */
export type Quoted = Quote | 'none' | 'asked'

/**
 * Returns the quote of the entry seq, which another entry answers. If it is not known, the client asks the
 * server; when the answer comes, a change names the conversation. Spec: S-9.3.
 */
export function quote(c: Core, conv: string, seq: number): Quoted {
  const v = c.convs.get(conv)
  if (!v || !Number.isSafeInteger(seq) || seq <= 0) return 'none'
  const held = slotAt(v, seq)
  if (held) return ofEntry(c, held.entry)
  if (v.quotes.known.has(seq)) return v.quotes.known.get(seq) ?? 'none'
  if (!v.quotes.wanted.has(seq)) {
    v.quotes.wanted.set(seq, false)
    c.asking.add(v)
  }
  return 'asked'
}

/** Returns the quote of an entry: the same object for the same entry. */
function ofEntry(c: Core, m: Entry): Quote {
  let q = c.views.quotes.get(m)
  if (!q) {
    q = quoteOf(m)
    c.views.quotes.set(m, q)
  }
  return q
}

/**
 * Keeps the quotes of a page. Call it after the entries of the page were taken. A held entry is quoted from the
 * entry itself.
 */
export function takeQuotes(v: Conv, list: readonly Quote[]): void {
  for (const q of list) keepQuote(v, q.seq, q)
}

/** Drops the quotes when a new stay of the user begins: edits before it were not pushed. */
export function dropQuotes(v: Conv): void {
  v.quotes.known.clear()
}

/** Keeps the newer one of two quotes of an entry, and applies held edits to it. Spec: S-9.4. */
function keepQuote(v: Conv, seq: number, q: Quote | undefined): void {
  const old = v.quotes.known.get(seq)
  if (old && q && Math.max(old.editedBy, old.recalledBy) > Math.max(q.editedBy, q.recalledBy)) return
  if (v.quotes.known.size >= maxQuotes) v.quotes.known.clear()
  v.quotes.known.set(seq, q)
  for (const { entry } of v.slots) foldQuote(v, entry)
}

/** Applies an edit or a recall to the quote of its target. Spec: P-5.9. */
export function foldQuote(v: Conv, m: Entry): void {
  const q = v.quotes.known.get(targetOf(m))
  const n = q && rewritten(q, m)
  if (n && n !== q) v.quotes.known.set(n.seq, quoteOf(n))
}

/** Returns the part of an entry that a quote shows. */
function quoteOf(m: Quote & Pick<Entry, 'rel'>): Quote {
  const { seq, from, timeMs, type, editedBy, recalledBy, lost, rel } = m
  return { seq, from, timeMs, type, editedBy, recalledBy, ...content(m), ...defined({ lost, forwarded: rel?.forwarded }) }
}

function content(b: { readonly text?: string; readonly data?: Uint8Array }): Pick<Quote, 'text' | 'data' | 'cut'> {
  if (b.data) return b.data.length > maxQuoteBytes ? { cut: true } : { data: b.data }
  if (b.text === undefined) return {}
  const text = head(b.text)
  return text.length < b.text.length ? { text, cut: true } : { text }
}

/** Returns the first characters of a text, at most 256 bytes. */
function head(text: string): string {
  let left = maxQuoteBytes
  let end = 0
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0
    left -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4
    if (left < 0) return text.slice(0, end)
    end += char.length
  }
  return text
}

/** Asks for the wanted quotes, as many at once as the server allows. */
export function askQuotes(c: Core, lv: Live): void {
  for (const v of c.asking) {
    if (!isDue(c, v.quotes.askAt)) continue
    for (const [seq, asked] of v.quotes.wanted) {
      if (readsFull(lv)) return
      if (!asked) askQuote(c, lv, v, seq)
    }
    c.asking.delete(v)
  }
}

function askQuote(c: Core, lv: Live, v: Conv, seq: number): void {
  v.quotes.wanted.set(seq, true)
  askHistory(c, lv, { conv: v.id, after: seq - 1, before: seq + 1, limit: 1 }, (f) => {
    const later = f?.kind === 'error' && f.error.retryable && f.error.code !== 'damaged'
    if (!f || later) { // ask again on the next connection, or later
      if (later) v.quotes.askAt = retryAt(c, f.error)
      v.quotes.wanted.set(seq, false)
      c.asking.add(v)
      return
    }
    v.quotes.wanted.delete(seq)
    const m = f.kind === 'history' ? f.history.messages.find((one) => one.seq === seq) : undefined
    keepQuote(v, seq, m && quoteOf(m))
    show(c, v)
  })
}
