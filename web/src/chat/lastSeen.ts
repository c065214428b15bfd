import { dayIn, dayOf, timeOf } from '../i18n/dates.js'
import type { Translation } from '../i18n/index.js'

const stepMs = 10 * 60_000 // the server rounds times down to this
const dayMs = 86_400_000

/**
 * Says when a user was last online, in words that are true. `roundedMs` is the time from the server, which may be
 * up to ten minutes too early. `saidMs` is the time of their newest message here, when they were online; 0: none.
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
