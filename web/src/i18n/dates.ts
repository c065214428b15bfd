import type { Translation } from './index.js'

const formats = new Map<string, Intl.DateTimeFormat>() // made on demand, because the first one takes time that an opening page would wait for

export function dateFormat(tag: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = tag + JSON.stringify(options)
  let made = formats.get(key)
  if (!made) {
    made = new Intl.DateTimeFormat(tag, options)
    formats.set(key, made)
  }
  return made
}

/**
 * Returns the time of day in the form of the language: 9:05 AM, 09:05. Each message has one, so it is made without
 * Intl, which is slow.
 */
export function timeOf(ms: number, { language }: Pick<Translation, 'language'>): string {
  const d = new Date(ms)
  const hour = d.getHours()
  const minutes = twoDigits(d.getMinutes())
  return language === 'en' ? `${hour % 12 || 12}:${minutes} ${hour < 12 ? 'AM' : 'PM'}` : `${twoDigits(hour)}:${minutes}`
}

function twoDigits(n: number): string {
  return String(n).padStart(2, '0')
}

/** Returns a number for the day of a time in the local time zone: times of the same day have the same number. */
export function dayOf(ms: number): number {
  const d = new Date(ms)
  return d.getFullYear() * 10_000 + d.getMonth() * 100 + d.getDate()
}

/** Formats a day for the line above its messages. */
export function dateOf(ms: number, { tag, t }: Translation, now = Date.now()): string {
  if (dayOf(ms) === dayOf(now)) return t('today')
  if (dayOf(ms) === dayOf(now - 86_400_000)) return t('yesterday')
  const sameYear = new Date(ms).getFullYear() === new Date(now).getFullYear()
  return dateFormat(tag, { month: 'long', day: 'numeric', ...(sameYear ? { weekday: 'long' } : { year: 'numeric' }) }).format(ms)
}

/** Formats a time as short as possible: the time, the day of the week, or the date. */
export function shortDate(ms: number, translation: Translation, now = Date.now()): string {
  if (dayOf(ms) === dayOf(now)) return timeOf(ms, translation)
  if (now - ms < 6 * 86_400_000) return dateFormat(translation.tag, { weekday: 'short' }).format(ms)
  const sameYear = new Date(ms).getFullYear() === new Date(now).getFullYear()
  return dateFormat(translation.tag, sameYear ? { month: 'short', day: 'numeric' } : { year: 'numeric', month: 'numeric', day: 'numeric' }).format(ms)
}

/** Formats a day inside a sentence. */
export function dayIn(ms: number, { tag }: Pick<Translation, 'tag'>, now = Date.now()): string {
  const sameYear = new Date(ms).getFullYear() === new Date(now).getFullYear()
  return dateFormat(tag, { month: 'long', day: 'numeric', ...(sameYear ? {} : { year: 'numeric' }) }).format(ms)
}

/** Formats date and time. */
export function fullDate(ms: number, translation: Translation): string {
  return `${dateFormat(translation.tag, { dateStyle: 'medium' }).format(ms)}${translation.language === 'en' ? ', ' : ' '}${timeOf(ms, translation)}`
}
