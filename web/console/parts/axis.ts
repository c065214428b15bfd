// The axes of a chart: their numbers, and the points of its samples.
import { numberFormat } from '../formats.js'

/** A value beside an axis, with as many digits as tell it from the next one. */
export function tick(v: number, step: number, { tag }: { readonly tag: string }): string {
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)))
  return numberFormat(tag, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(v)
}

/** The samples without a neighbour: no line goes through them, so each is a point. */
export function lonely(values: ArrayLike<number | null | undefined>): number[] {
  return Array.from(values).flatMap((v, i) => v != null && values[i - 1] == null && values[i + 1] == null ? [i] : [])
}
