import { type Piece, piecesOf } from './markup.js'

const fewLines = 24
const mostLines = 36
const fewSigns = 1500 // code units
const mostSigns = 2200
const wordSigns = 200 // the fold is moved back to a blank by at most this much, so that no word is cut

/**
 * Returns the position at which a long text is folded; undefined: it is shown whole. Only a text of more than
 * mostLines lines or mostSigns code units is folded, so that unfolding is worth a click. The shown part is shorter:
 * about fewLines lines or fewSigns code units.
 */
export function foldOf(text: string): number | undefined {
  let lines = 1
  let few = Infinity // the end of the last shown line
  for (let i = text.indexOf('\n'); i >= 0 && i < mostSigns; i = text.indexOf('\n', i + 1)) {
    if (lines === fewLines) few = i
    if (++lines > mostLines) break
  }
  if (lines <= mostLines && text.length <= mostSigns) return undefined
  if (few <= fewSigns && lines > mostLines) return few
  for (let i = fewSigns; i > fewSigns - wordSigns; i--) if (/\s/.test(text[i] ?? '')) return i
  return /[\ud800-\udbff]/.test(text[fewSigns - 1] ?? '') ? fewSigns - 1 : fewSigns
}

/**
 * Returns the pieces of a text up to its fold. A block of code across the fold ends there. An address that is cut
 * by the fold is not a link.
 */
export function piecesUntil(text: string, at: number, mentions: ReadonlySet<string>): readonly Piece[] {
  const shown = `${text.slice(0, at).trimEnd()} …`
  const pieces = piecesOf(shown.split('```').length % 2 === 0 ? `${shown}\n\`\`\`` : shown, mentions)
  const isInWord = !/\s/.test(text[at] ?? '')
  return isInWord ? pieces.map((p, i) => i >= pieces.length - 2 && typeof p !== 'string' && p.kind === 'link' ? p.text : p) : pieces
}
