import { useSyncExternalStore } from 'react'
import { CallError, follow } from './call.js'
import { pastOf } from './incidents.js'
import type { IncidentJson, OverviewJson, SampleJson } from './wire/types_gen.js'

/** The known state of the servers: the last overview, the samples of the hour before it, and the ended incidents. */
export interface Live {
  readonly overview: OverviewJson | undefined
  readonly samples: readonly SampleJson[] // oldest first
  readonly past: readonly IncidentJson[] // ended incidents, the newest end first; pastOf drops old ones
  readonly error: CallError | undefined // set while the last call failed
  readonly sinceMs: number // with error: when the first call failed, by the clock of this browser
}

const hiddenMs = 10_000 // between two calls while the tab is hidden
const patienceMs = 2500 // wait for the next overview: a node sends one each second, and waits up to a second for the other nodes
const againMs = [1000, 8000] as const // the pause before the first retry, and the longest one
const hourMs = 3_600_000
const coarseS = 10 // between the samples of the first answer: 360 for the hour

const nothing: Live = { overview: undefined, samples: [], past: [], error: undefined, sinceMs: 0 }
let now = nothing
const listeners = new Set<() => void>()
let stop: AbortController | undefined

function set(next: Live): void {
  now = next
  for (const f of listeners) f()
}

/**
 * Takes the overviews that the server sends each second, and returns whether any came. It ends when the stream
 * ends or fails, when no overview came for patienceMs, or when signal is aborted. All but the last are kept as the
 * error. A hidden page ends the stream after one overview, which is enough for the health in the title: a browser
 * allows few connections to one server, and many consoles are open in the background.
 */
async function listen(signal: AbortSignal): Promise<boolean> {
  let heard = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const stop = new AbortController()
  const wait = (): void => {
    clearTimeout(timer)
    timer = setTimeout(() => stop.abort(new CallError('network', '')), patienceMs)
  }
  const leave = (): void => {
    if (heard && document.hidden) stop.abort()
  }
  const after = now.overview?.timeMs
  document.addEventListener('visibilitychange', leave)
  wait()
  try {
    await follow('AdminService/GetOverview', after ? { afterMs: after, stepS: 1 } : { stepS: coarseS }, (overview) => {
      const begin = Number(overview.timeMs ?? 0) - hourMs
      set({ overview, samples: [...now.samples, ...overview.samples ?? []].filter((s) => Number(s.timeMs) > begin), past: pastOf(now.past, overview), error: undefined, sinceMs: 0 })
      heard = true
      wait()
      leave()
    }, AbortSignal.any([signal, stop.signal]))
  } catch (e) {
    if (!signal.aborted && (e instanceof CallError || !stop.signal.aborted)) set({ ...now, error: e instanceof CallError ? e : new CallError('internal', String(e)), sinceMs: now.sinceMs || Date.now() })
  } finally {
    stop.abort()
    clearTimeout(timer)
    document.removeEventListener('visibilitychange', leave)
  }
  return heard
}

/**
 * Repeats listen until signal is aborted. The pause doubles with each failure in a row, within againMs, and has a
 * random part, so that not all pages come back at once. In a hidden page it is hiddenMs. It ends early when the page
 * is hidden or shown.
 */
async function run(signal: AbortSignal): Promise<void> {
  for (let tries = 0; !signal.aborted; tries++) {
    if (await listen(signal)) tries = 0
    const pause = document.hidden ? hiddenMs : Math.min(againMs[0] * 2 ** tries, againMs[1]) * (0.5 + Math.random() / 2)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pause)
      const wake = (): void => {
        clearTimeout(timer)
        resolve()
      }
      signal.addEventListener('abort', wake, { once: true })
      document.addEventListener('visibilitychange', wake, { once: true })
    })
  }
}

function subscribe(f: () => void): () => void {
  listeners.add(f)
  if (!stop) void run((stop = new AbortController()).signal)
  return () => {
    listeners.delete(f)
    if (listeners.size > 0) return
    stop?.abort()
    stop = undefined
    now = nothing // the next operator starts without old data
  }
}

export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => now)
}

/**
 * Returns the health of the servers: 'unknown' before the first overview, 'critical' after a failed call, else the
 * verdict of the overview.
 */
export function useVerdict(): 'well' | 'degraded' | 'critical' | 'unknown' {
  const { overview, error } = useLive()
  if (error) return 'critical'
  if (!overview) return 'unknown'
  return overview.verdict === 'VERDICT_CRITICAL' ? 'critical' : overview.verdict === 'VERDICT_DEGRADED' ? 'degraded' : 'well'
}
