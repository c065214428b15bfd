import { dayIn, dayOf, timeOf } from '../i18n/dates.js'
import type { Translation } from '../i18n/index.js'

const stepMs = 10 * 60_000 // a server rounds down to this
const dayMs = 86_400_000

/**
 * When a user was online last, in words that hold. `roundedMs` is the time that the server tells,
 * up to ten minutes early; `saidMs` is that of their newest message that is seen here, 0 for none:
 * at that time they were online.
 */
export function lastSeen(roundedMs: number, saidMs: number, translation: Translation, now = Date.now()): string {
  const { t } = translation
  const ms = Math.max(roundedMs, saidMs)
  if (now - ms < stepMs) return t('lastSeenRecently')
  const time = timeOf(ms, translation)
  if (dayOf(ms) === dayOf(now)) return t('lastSeenToday', { time })
  if (dayOf(ms) === dayOf(now - dayMs)) return t('lastSeenYesterday', { time })
  return t('lastSeenOn', { day: dayIn(ms, translation, now) })
}
