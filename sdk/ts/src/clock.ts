/** The time, and timers. Tests use a clock of their own. */
export interface Clock {
  /** Returns the time in Unix ms. It never goes back. */
  now(): number
  /** Calls f once, after at least ms. The returned function cancels the call. */
  after(ms: number, f: () => void): () => void
}

const maxDelayMs = 2 ** 31 - 1 // longer timers would fire at once

/**
 * Makes the clock of this device. When the device clock is set back, this one stands still, and then goes on
 * from where it was.
 */
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
