import { dayIn, dayOf, timeOf } from '../i18n/dates.js'
import type { Translation } from '../i18n/index.js'

const stepMs = 10 * 60_000 // the server rounds times down to this
const dayMs = 86_400_000

/**
 * Returns a text that says when a user was last online. `roundedMs` is the time from the server, which may be up to
 * ten minutes too early. `saidMs` is the time of the user's newest message here, when the user was online; 0: none.
 * The later one counts.
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
