// Formats numbers, sizes and times for the console.
import { dateFormat } from '../src/i18n/dates.js'
import type { Translation } from './i18n/index.js'

const numbers = new Map<string, Intl.NumberFormat>()

export function numberFormat(tag: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = tag + JSON.stringify(options)
  let made = numbers.get(key)
  if (!made) numbers.set(key, made = new Intl.NumberFormat(tag, options))
  return made
}

/** Formats a number with one decimal below 10, and without decimals from there on. */
export function number(v: number, { tag }: Translation): string {
  return numberFormat(tag, { maximumFractionDigits: Math.abs(v) < 10 ? 1 : 0 }).format(v)
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

export function bytes(v: number | string | undefined, { tag }: Translation): string {
  let n = Number(v ?? 0)
  let unit = 0
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024
    unit++
  }
  return `${numberFormat(tag, { maximumFractionDigits: n < 10 && unit > 0 ? 1 : 0 }).format(n)} ${units[unit]}`
}

/** Formats the bytes that are taken and their bound; without a bound it returns the text for "no limit". */
export function taken(of: { readonly takenBytes?: string; readonly boundBytes?: string }, tr: Translation): string {
  return Number(of.boundBytes ?? 0) > 0 ? tr.t('takenOf', { taken: bytes(of.takenBytes, tr), bound: bytes(of.boundBytes, tr) }) : tr.t('noLimit')
}

export function ms(v: number | undefined, tr: Translation): string {
  return v ? v >= 10_000 ? tr.t('seconds', { n: number(v / 1000, tr) }) : tr.t('milliseconds', { n: number(v, tr) }) : '–'
}

/**
 * Formats date and time with seconds, in the local time zone; at is in Unix milliseconds, 0 and undefined give a dash.
 */
export function time(at: number | string | undefined, { tag }: Translation): string {
  const n = Number(at ?? 0)
  return n === 0 ? '–' : dateFormat(tag, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' }).format(n)
}

/** Formats the time of day with seconds, as time does. */
export function clock(at: number | string | undefined, { tag }: Translation): string {
  const n = Number(at ?? 0)
  return n === 0 ? '–' : dateFormat(tag, { timeStyle: 'medium', hourCycle: 'h23' }).format(n)
}

/** Formats a day that comes from the server as 2026-12-24; another text is returned as it is. */
export function day(v: string, { tag }: Translation): string {
  const at = Date.parse(v)
  return Number.isNaN(at) ? v : dateFormat(tag, { dateStyle: 'long', timeZone: 'UTC' }).format(at)
}

/**
 * Formats a duration: in seconds, from a minute in minutes, from an hour in hours and minutes, from a day in days and
 * hours.
 */
export function span(ofMs: number, { t }: Translation): string {
  const s = Math.max(0, Math.floor(ofMs / 1000))
  if (s < 60) return t('seconds', { n: s })
  if (s < 3600) return t('minutes', { n: Math.floor(s / 60) })
  if (s < 86_400) return t('hours', { n: Math.floor(s / 3600), m: Math.floor(s % 3600 / 60) })
  return t('days', { n: Math.floor(s / 86_400), h: Math.floor(s % 86_400 / 3600) })
}
