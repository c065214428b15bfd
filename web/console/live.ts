import { useSyncExternalStore } from 'react'
import { call, CallError } from './call.js'
import type { OverviewJson, SampleJson } from './wire/types_gen.js'

/** What is known of the servers: the last overview, and the samples of the last hour. */
export interface Live {
  readonly overview: OverviewJson | undefined
  readonly samples: readonly SampleJson[] // oldest first
  readonly error: CallError | undefined // the last call was not answered
  readonly sinceMs: number // with error: of this browser's clock, when the first one was not
}

const seenMs = 1000 // between an answer and the next call
const hiddenMs = 10_000 // while nobody looks at the tab
const patienceMs = 2500 // a node answers an overview within a second, also if others do not
const hourMs = 3_600_000
const coarseS = 10 // of the first samples, 360 for the hour

let now: Live = { overview: undefined, samples: [], error: undefined, sinceMs: 0 }
const listeners = new Set<() => void>()
let stop: AbortController | undefined

function set(next: Live): void {
  now = next
  for (const f of listeners) f()
}

async function ask(signal: AbortSignal): Promise<void> {
  const after = now.overview?.timeMs
  try {
    const overview = await call('AdminService/GetOverview', after ? { afterMs: after, stepS: 1 } : { stepS: coarseS }, AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]))
    const begin = Number(overview.timeMs ?? 0) - hourMs
    set({ overview, samples: [...now.samples, ...overview.samples ?? []].filter((s) => Number(s.timeMs) > begin), error: undefined, sinceMs: 0 })
  } catch (e) {
    if (!signal.aborted) set({ ...now, error: e instanceof CallError ? e : new CallError('network', ''), sinceMs: now.sinceMs || Date.now() })
  }
}

/** Asks again and again while somebody listens: each second while the page is seen. */
async function run(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await ask(signal)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, document.visibilityState === 'visible' ? seenMs : hiddenMs)
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
    now = { overview: undefined, samples: [], error: undefined, sinceMs: 0 } // the next operator begins anew
  }
}

export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => now)
}
