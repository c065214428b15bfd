import { keep, recall } from '../browserStorage.js'
import type { Tone } from './tone.js'

// The recent emojis and the skin tone of an account, kept in this browser. A logout removes them.

const most = 32 // emojis

/** Returns the emojis that were chosen last, the newest first. */
export function recentEmojis(account: string): readonly string[] {
  try {
    const kept: unknown = JSON.parse(recall(`${account}:emoji`) || '[]')
    return Array.isArray(kept) ? kept.filter((sign) => typeof sign === 'string').slice(0, most) : []
  } catch {
    return []
  }
}

export function keepEmoji(account: string, sign: string): void {
  keep(`${account}:emoji`, JSON.stringify([sign, ...recentEmojis(account).filter((s) => s !== sign)].slice(0, most)))
}

export function toneOf(account: string): Tone {
  const kept = Number(recall(`${account}:tone`))
  return kept >= 1 && kept <= 5 && Number.isInteger(kept) ? kept as Tone : 0
}

export function keepTone(account: string, tone: Tone): void {
  keep(`${account}:tone`, tone === 0 ? '' : String(tone))
}
