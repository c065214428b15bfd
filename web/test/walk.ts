// Scrolls a timeline frame by frame, and measures what each frame costs and whether rows jump.
import type { CDPSession, Page } from 'playwright-core'

export interface Walk {
  readonly jumpPx: number // the largest one of the row at the top of the view, which is to stand still
  readonly rows: number // most in the page
  readonly movedPx: number
  readonly frames: number // fewer than were asked for: it came to an end of the conversation
}

/**
 * Moves the view by step px in each frame, as a wheel does, and notes by how much the row at its
 * top moved besides: its bottom, or its top if its bottom is not in view. A row below it may move,
 * if a row between them changes while the person sees it. At the newest message the view follows
 * what comes. It ends early at an end of the conversation. Runs in the page.
 */
export async function walk({ step, frames }: { readonly step: number; readonly frames: number }): Promise<Walk> {
  const view = document.querySelector('.timeline-view') as HTMLElement
  const box = view.getBoundingClientRect()
  let jumpPx = 0
  let rows = 0
  let movedPx = 0
  let still = 0
  let i = 0
  for (; i < frames && still < 200; i++) {
    const all = [...view.querySelectorAll<HTMLElement>('[data-key]')]
    let low = 0
    for (let high = all.length; low < high;) { // what looks at fewer rows costs less, and this is measured too
      const mid = (low + high) >>> 1
      if ((all[mid] as HTMLElement).getBoundingClientRect().bottom > box.top + 1) high = mid
      else low = mid + 1
    }
    const row = all[low]
    const was = row?.getBoundingClientRect()
    const edge = was && was.bottom <= box.bottom ? 'bottom' : 'top'
    const at = view.scrollTop
    const follows = view.scrollHeight - view.clientHeight - at <= 2 && !document.querySelector('.timeline-ways')
    if (follows && step > 0) break
    view.scrollTop += step
    const by = view.scrollTop - at
    await new Promise((done) => requestAnimationFrame(done))
    if (row?.isConnected && was && !follows) {
      const off = Math.abs(row.getBoundingClientRect()[edge] - was[edge] + by)
      if (off > 1) console.log(`jump in frame ${i}: ${off} px, key ${row.dataset['key']}, by ${by} from ${at} of ${view.scrollHeight}`)
      jumpPx = Math.max(jumpPx, off)
    }
    rows = Math.max(rows, all.length)
    movedPx += Math.abs(by)
    still = step !== 0 && by === 0 ? still + 1 : 0
  }
  return { jumpPx, rows, movedPx, frames: i }
}

interface TraceEvent {
  readonly name: string
  readonly ph: string
  readonly ts: number // µs
  readonly dur?: number
  readonly tdur?: number // on the processor: a busy machine does not lengthen it
  readonly pid: number
  readonly tid: number
  readonly args?: { readonly name?: string }
}

/** The work of the page's main thread, in ms of the processor. */
export interface Cost {
  readonly frames: readonly number[] // script, style and layout of each frame
  readonly longestTask: number
  readonly byName: ReadonlyMap<string, number>
}

const script = new Set(['EventDispatch', 'FunctionCall', 'EvaluateScript', 'FireAnimationFrame', 'FireIdleCallback', 'TimerFire', 'RunMicrotasks', 'v8.run', 'XHRReadyStateChange', 'WebSocketReceive'])
const layout = new Set(['UpdateLayoutTree', 'Layout', 'IntersectionObserverController::computeIntersections', 'ResizeObserver'])

/** Traces the page while f runs. */
export async function traced<T>(devtools: CDPSession, f: () => Promise<T>): Promise<{ readonly result: T; readonly cost: Cost }> {
  const events: TraceEvent[] = []
  const take = ({ value }: { value: unknown[] }): void => void events.push(...value as TraceEvent[])
  devtools.on('Tracing.dataCollected', take)
  await devtools.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['devtools.timeline', 'disabled-by-default-devtools.timeline', 'toplevel', '__metadata'] } })
  const result = await f()
  const complete = new Promise((done) => devtools.once('Tracing.tracingComplete', done))
  await devtools.send('Tracing.end')
  await complete
  devtools.off('Tracing.dataCollected', take)
  return { result, cost: costOf(events) }
}

function costOf(events: readonly TraceEvent[]): Cost {
  const isPage = new Set(events.filter((e) => e.name === 'FireAnimationFrame').map((e) => `${e.pid}/${e.tid}`))
  const main = events.filter((e) => isPage.has(`${e.pid}/${e.tid}`) && e.ph === 'X').sort((a, b) => a.ts - b.ts || (b.dur ?? 0) - (a.dur ?? 0))
  const cpu = (e: TraceEvent): number => (e.tdur ?? e.dur ?? 0) / 1000
  const begins = main.filter((e) => e.name === 'FireAnimationFrame').map((e) => e.ts)
  const frames = begins.map(() => 0)
  const byName = new Map<string, number>()
  let longestTask = 0
  let at = 0
  let until = 0 // the end of the outermost event that counts
  for (const e of main) {
    if (/RunTask$/.test(e.name)) longestTask = Math.max(longestTask, cpu(e))
    if (!script.has(e.name) && !layout.has(e.name)) continue
    byName.set(e.name, (byName.get(e.name) ?? 0) + cpu(e))
    if (e.ts < until) continue // it is a part of another one
    until = e.ts + (e.dur ?? 0)
    while (at + 1 < begins.length && (begins[at + 1] ?? 0) <= e.ts) at++
    frames[at] = (frames[at] ?? 0) + cpu(e)
  }
  return { frames, longestTask, byName }
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0
}

/** The memory of the page's script, in MB. */
export async function heapMB(page: Page, devtools: CDPSession): Promise<number> {
  await devtools.send('HeapProfiler.collectGarbage')
  return await page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize) / 1e6
}

const words = 'the sea was calm and a petrel went along with the ferry until the lighthouse came up behind the island'.split(' ')

/** The text of the nth message of a long conversation: short ones, and now and then a long one. */
export function textOf(n: number): string {
  return `${n} ${n % 50 === 0 ? words.join(' ').repeat(8) : words.slice(0, 2 + n * 7 % (words.length - 1)).join(' ')}`
}
