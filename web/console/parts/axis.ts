// Parts of a chart: the numbers on its axes, and single points.
import { numberFormat } from '../formats.js'

/** Formats a value on an axis, with enough digits to tell it from the next one. */
export function tick(v: number, step: number, { tag }: { readonly tag: string }): string {
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)))
  return numberFormat(tag, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(v)
}

/** Returns the indexes of samples without a neighbour. No line goes through them, so they are drawn as points. */
export function lonely(values: ArrayLike<number | null | undefined>): number[] {
  return Array.from(values).flatMap((v, i) => v != null && values[i - 1] == null && values[i + 1] == null ? [i] : [])
}
