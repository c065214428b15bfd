// Scrolls through a long conversation, up and down, while messages, edits and reactions come
// in, and prints what it costs: `npm run scroll -- [messages]`, 100,000 by itself.
import type { CDPSession, Page } from 'playwright-core'
import { launch, Person } from './browser.js'
import { Server } from './server.js'

const count = Number(process.argv[2] ?? 100_000)
const stepPx = 120 // by which the view moves in each frame: a fast wheel
const frames = Number(process.argv[3] ?? 1500) // of each direction
const sending = 64 // at once, when the conversation is made

interface Walk {
  readonly frames: number
  readonly jump: number // the largest one of a row that stayed, px
  readonly rows: number // most in the page
  readonly from: number
  readonly to: number // scrolled past, px
}

interface TraceEvent {
  readonly name: string
  readonly ph: string
  readonly ts: number
  readonly dur?: number
  readonly pid: number
  readonly tid: number
  readonly args?: { readonly name?: string }
}

/** Moves the view frame by frame, as a person does, and notes by how much rows moved besides. Runs in the page. */
async function walk({ step, frames: n }: { readonly step: number; readonly frames: number }): Promise<Walk> {
  const view = document.querySelector('.timeline-view') as HTMLElement
  const frame = (): Promise<void> => new Promise((done) => requestAnimationFrame(() => done()))
  let jump = 0
  let most = 0
  let moved = 0
  for (let i = 0; i < n; i++) {
    const box = view.getBoundingClientRect()
    const rows = [...view.querySelectorAll<HTMLElement>('[data-key]')]
    most = Math.max(most, rows.length)
    const row = rows.find((r) => r.getBoundingClientRect().top > box.top + box.height / 2) ?? rows.at(-1)
    const before = row?.getBoundingClientRect().top ?? 0
    const at = view.scrollTop
    view.scrollTop += step
    const by = view.scrollTop - at
    await frame()
    await frame()
    const off = row?.isConnected ? Math.abs(row.getBoundingClientRect().top - before + by) : 0
    if (off > 1) console.log(`jump ${i}: ${off} by ${by} scrollTop ${at} -> ${view.scrollTop} height ${view.scrollHeight} rows ${rows.length} -> ${view.querySelectorAll('[data-key]').length} key ${row?.dataset['key']}`)
    jump = Math.max(jump, off)
    moved += Math.abs(by)
  }
  return { frames: n, jump, rows: most, from: 0, to: moved }
}

/** What the main thread of the page did in each frame, in ms, and its longest task. */
async function traced<T>(devtools: CDPSession, f: () => Promise<T>): Promise<{ readonly result: T; readonly frameMs: readonly number[]; readonly longestMs: number }> {
  const events: TraceEvent[] = []
  devtools.on('Tracing.dataCollected', ({ value }) => events.push(...value as unknown as TraceEvent[]))
  await devtools.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['disabled-by-default-devtools.timeline', 'devtools.timeline', 'toplevel', '__metadata'] } })
  const result = await f()
  const complete = new Promise((done) => devtools.once('Tracing.tracingComplete', done))
  await devtools.send('Tracing.end')
  await complete
  const main = events.find((e) => e.name === 'thread_name' && e.args?.name === 'CrRendererMain' && events.some((x) => x.pid === e.pid && x.name === 'FunctionCall'))
  const tasks = events.filter((e) => e.pid === main?.pid && e.tid === main.tid && e.ph === 'X' && e.name === 'RunTask' || e.pid === main?.pid && e.tid === main.tid && e.name === 'ThreadControllerImpl::RunTask').sort((a, b) => a.ts - b.ts)
  const begins = events.filter((e) => e.pid === main?.pid && e.name === 'FireAnimationFrame').map((e) => e.ts).sort((a, b) => a - b)
  const frameMs = begins.map(() => 0)
  let at = 0
  for (const t of tasks) {
    while (at + 1 < begins.length && (begins[at + 1] ?? 0) <= t.ts) at++
    frameMs[at] = (frameMs[at] ?? 0) + (t.dur ?? 0) / 1000
  }
  return { result, frameMs, longestMs: Math.max(0, ...tasks.map((t) => (t.dur ?? 0) / 1000)) }
}

function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0
}

async function heapMB(page: Page, devtools: CDPSession): Promise<number> {
  await devtools.send('HeapProfiler.collectGarbage')
  return await page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize) / 1e6
}

const server = await Server.start()
const links = await server.users('alice', 'bob')
const { conv } = await server.admin('AdminService/CreateGroup', { title: 'long', members: [{ user: 'alice', role: 'ROLE_OWNER' }, { user: 'bob' }] }) as { conv: string }
const words = 'the sea was calm and a petrel went along with the ferry until the lighthouse came up behind the island'.split(' ')
let next = 0
await Promise.all(Array.from({ length: sending }, async () => {
  for (let i = next++; i < count; i = next++) {
    const text = i % 50 === 0 ? words.join(' ').repeat(8) : words.slice(0, 2 + i * 7 % (words.length - 1)).join(' ')
    await server.sendAs(i % 3 === 0 ? 'alice' : 'bob', { conv, text: `${i} ${text}` })
  }
}))

const browser = await launch()
const person = await (await Person.open(browser, links['alice'] ?? '')).ready()
const { page } = person
page.on('console', (m) => console.log(m.text()))
const devtools = await page.context().newCDPSession(page)
await page.goto(`${server.url}/#/alice/c/${conv}`)
await page.locator('.message').first().waitFor()
const heapBefore = await heapMB(page, devtools)

let over = false
const noise = (async () => { // what happens meanwhile
  for (let i = 0; !over; i++) {
    const { seq } = await server.sendAs('bob', { conv, text: `new ${i}` })
    if (i % 3 === 0) await server.sendAs('bob', { conv, edit: { target: String(seq), text: `edited ${i}` } })
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
})()
const up = await traced(devtools, () => page.evaluate(walk, { step: -stepPx, frames }))
const down = await traced(devtools, () => page.evaluate(walk, { step: stepPx, frames }))
const still = await page.evaluate(walk, { step: 0, frames: 200 })
over = true
await noise
const heapAfter = await heapMB(page, devtools)

const round = (n: number): number => Math.round(n * 10) / 10
for (const [name, { result, frameMs, longestMs }] of Object.entries({ up, down })) {
  console.log(`${name}: ${result.frames} steps of ${stepPx} px, ${Math.round(result.to)} px in all; main thread per frame p50 ${round(quantile(frameMs, 0.5))} ms, p95 ${round(quantile(frameMs, 0.95))} ms; longest task ${round(longestMs)} ms; largest jump ${round(result.jump)} px; at most ${result.rows} rows`)
}
console.log(`still: largest jump ${round(still.jump)} px; heap ${round(heapBefore)} MB before, ${round(heapAfter)} MB after; messages ${count}`)

// The chat is opened again, from what the browser holds.
await page.context().setOffline(true)
await page.addInitScript(() => {
  new MutationObserver((_, self) => {
    if (!document.querySelector('.message')) return
    self.disconnect()
    requestAnimationFrame(() => Object.assign(globalThis, { messagesMs: performance.now() }))
  }).observe(document, { childList: true, subtree: true })
})
const openings = []
for (let i = 0; i < 5; i++) {
  await page.reload()
  await page.waitForFunction(() => 'messagesMs' in globalThis)
  openings.push(await page.evaluate(() => {
    const script = performance.getEntriesByType('resource').find((e) => e.name.endsWith('.js')) as PerformanceResourceTiming
    return { page: (globalThis as unknown as { messagesMs: number }).messagesMs, messages: (globalThis as unknown as { messagesMs: number }).messagesMs - script.responseEnd }
  }))
}
console.log(`opened without a network: messages are there ${round(quantile(openings.map((o) => o.page), 0.5))} ms after the reload, ${round(quantile(openings.map((o) => o.messages), 0.5))} ms after the script (medians of ${openings.length})`)
await browser.close()
await server.stop()
