import { show, slotAt } from './conversation.js'
import { defined, type Entry, type Quote } from './frames.js'
import { alarmAt, ask, readsFull, retryAt } from './link.js'
import { rewritten, targetOf } from './rewrite.js'
import type { Conv, Core, Live } from './state.js'

const maxQuotes = 512 // of one conversation that are kept; those beyond are asked for again. Spec: S-16.2
const maxQuoteBytes = 256 // of a body, P-5.9

/** What is known of an entry that others answer; none: it is not available to this user; asked: the server is asked. */
export type Quoted = Quote | 'none' | 'asked'

/**
 * What is known of the entry seq, which an entry of the conversation answers. It is asked for
 * if it is not known, and a change names the conversation when it is. Spec: S-9.3.
 */
export function quote(c: Core, conv: string, seq: number): Quoted {
  const v = c.convs.get(conv)
  if (!v || !Number.isSafeInteger(seq) || seq <= 0) return 'none'
  const held = slotAt(v, seq)
  if (held) return ofEntry(c, held.entry)
  if (v.quoted.has(seq)) return v.quoted.get(seq) ?? 'none'
  if (!v.wanted.has(seq)) {
    v.wanted.set(seq, false)
    c.asking.add(v)
  }
  return 'asked'
}

/** The same quote of the same entry. */
function ofEntry(c: Core, m: Entry): Quote {
  let q = c.views.quotes.get(m)
  if (!q) {
    q = quoteOf(m)
    c.views.quotes.set(m, q)
  }
  return q
}

/** Keeps the quotes of a page whose entries are taken already. What the client holds it quotes itself. */
export function takeQuotes(v: Conv, list: readonly Quote[]): void {
  for (const q of list) keepQuote(v, q.seq, q)
}

/** Keeps the newer one of two copies. An edit that is held may be newer than both. Spec: S-9.4. */
function keepQuote(v: Conv, seq: number, q: Quote | undefined): void {
  const old = v.quoted.get(seq)
  if (old && q && Math.max(old.editedBy, old.recalledBy) > Math.max(q.editedBy, q.recalledBy)) return
  if (v.quoted.size >= maxQuotes) v.quoted.clear()
  v.quoted.set(seq, q)
  for (const { entry } of v.slots) foldQuote(v, entry)
}

/** Applies an edit or a recall to the quote of its target. Spec: P-5.9. */
export function foldQuote(v: Conv, m: Entry): void {
  const q = v.quoted.get(targetOf(m))
  const n = q && rewritten(q, m)
  if (n && n !== q) v.quoted.set(n.seq, quoteOf(n))
}

/** As much of an entry as a quote shows. */
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

/** The first characters of a text, of at most 256 bytes together. */
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

/** Asks for the quotes that are wanted, as many at once as is allowed. */
export function askQuotes(c: Core, lv: Live): void {
  for (const v of c.asking) {
    if (c.now < v.repairAt) {
      alarmAt(c, v.repairAt)
      continue
    }
    for (const [seq, asked] of v.wanted) {
      if (readsFull(lv)) return
      if (!asked) askQuote(c, lv, v, seq)
    }
    c.asking.delete(v)
  }
}

function askQuote(c: Core, lv: Live, v: Conv, seq: number): void {
  lv.reads++
  v.wanted.set(seq, true)
  ask(c, lv, { history: { conv: v.id, after: seq - 1, before: seq + 1, limit: 1 } }, (f) => {
    if (f) {
      lv.reads--
      lv.pages++
    }
    const later = f?.kind === 'error' && f.error.retryable && f.error.code !== 'damaged'
    if (!f || later) { // on the next connection, or when the server can
      if (later) v.repairAt = retryAt(c, f.error)
      v.wanted.set(seq, false)
      c.asking.add(v)
      return
    }
    v.wanted.delete(seq)
    const m = f.kind === 'history' ? f.history.messages.find((one) => one.seq === seq) : undefined
    keepQuote(v, seq, m && quoteOf(m))
    show(c, v)
  })
}
