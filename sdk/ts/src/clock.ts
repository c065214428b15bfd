/** Tells the time and wakes up. Tests bring their own. */
export interface Clock {
  /** Unix ms. It never goes back. */
  now(): number
  /** Calls f once, after ms at the earliest. The function that it returns calls that off. */
  after(ms: number, f: () => void): () => void
}

const maxDelayMs = 2 ** 31 - 1 // longer ones fire at once

/** The clock of this device. Where that is set back, this one stands still for a moment and goes on. */
export function systemClock(): Clock {
  let seen = Date.now()
  let now = seen
  return {
    now() {
      const wall = Date.now()
      now += Math.max(0, wall - seen)
      seen = wall
      return now
    },
    after(ms, f) {
      const timer = setTimeout(f, Math.min(Math.max(0, ms), maxDelayMs))
      return () => clearTimeout(timer)
    },
  }
}
