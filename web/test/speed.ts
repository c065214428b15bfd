// Opens the web chat again and again, for the first time and with what the browser keeps, and
// prints medians: `npm run speed -- [times]`, 9 by itself. Beside them it prints what the machine
// needs at least: for a page that reads one row from a database, and has React draw it.
import { build } from 'esbuild'
import type { Page } from 'playwright-core'
import { launch, Person } from './browser.js'
import { Server } from './server.js'
import { quantile, textOf } from './walk.js'

const times = Number(process.argv[2] ?? 9)
const chats = 30 // that the person has
const messages = 120 // in each

interface Opening {
  readonly painted: number // ms after the page was asked for: the first paint with content
  readonly script: number // when the script began, the same
  readonly shown: number // when messages were painted, the same; 0: there are none
}

const shownLine = 'messages are shown' // which the page logs: to ask it before would cost it time, and that is measured

/** Notes when the first messages are in the page, and when they are painted at the latest; then it logs a line. Runs in the page before its scripts. */
function watch(line: string): void {
  new MutationObserver((_, self) => {
    if (!document.querySelector('.message')) return
    self.disconnect()
    performance.mark('petrel-drawn')
    requestAnimationFrame(() => { // after it comes the frame; the next task is after its painting
      const { port1, port2 } = new MessageChannel()
      port1.onmessage = () => {
        performance.mark('petrel-messages')
        new PerformanceObserver((_, self) => {
          self.disconnect()
          console.log(line)
        }).observe({ type: 'paint', buffered: true })
      }
      port2.postMessage(undefined)
    })
  }).observe(document, { childList: true, subtree: true })
}

async function measure(page: Page, withMessages: boolean): Promise<Opening> {
  await page.waitForFunction((mark) => performance.getEntriesByName('first-contentful-paint').length > 0 && performance.getEntriesByName(mark).length > 0, withMessages ? 'petrel-messages' : 'petrel-script')
  return page.evaluate(() => {
    const at = (name: string): number => performance.getEntriesByName(name)[0]?.startTime ?? 0
    const painted = at('first-contentful-paint')
    const drawn = at('petrel-drawn')
    // As a rule messages are in the first paint. A mark after another one is late: effects run before.
    return { painted, script: at('petrel-script'), shown: drawn > 0 && drawn <= painted ? painted : at('petrel-messages') }
  })
}

const server = await Server.start()
const links = await server.users('alice', 'bob')
let conv = ''
for (let i = 0; i < chats; i++) {
  conv = (await server.admin('AdminService/CreateGroup', { title: `Group ${i}`, members: [{ user: 'alice', role: 'ROLE_OWNER' }, { user: 'bob' }] }) as { conv: string }).conv
  await Promise.all(Array.from({ length: messages }, (_, n) => server.sendAs(n % 3 === 0 ? 'alice' : 'bob', { conv, text: textOf(n) })))
}
const browser = await launch()
const round = (all: readonly number[]): number => Math.round(quantile(all, 0.5))

const loaded = { script: 0, all: 0 } // bytes over the wire
const first: Opening[] = []
for (let i = 0; i < times; i++) {
  const context = await browser.newContext({ serviceWorkers: 'block' })
  const person = await Person.open(context, server.url)
  first.push(await measure(person.page, false))
  const sizes = await person.page.evaluate(() => performance.getEntriesByType('resource').map((e) => ({ name: e.name, bytes: (e as PerformanceResourceTiming).encodedBodySize })))
  loaded.script = sizes.filter((s) => s.name.endsWith('.js')).reduce((n, s) => n + s.bytes, 0)
  loaded.all = sizes.reduce((n, s) => n + s.bytes, 0)
  await context.close()
}
let gzipped = 0
for (const [path] of (await (await fetch(server.url)).text()).matchAll(/\/assets\/[\w.-]+\.js/g)) {
  const answer = await fetch(server.url + path, { method: 'HEAD', headers: { 'accept-encoding': 'gzip' } })
  gzipped += Number(answer.headers.get('content-length'))
}
console.log(`first load: ${Math.round(loaded.script / 1000)} kB of script (Brotli; ${Math.round(gzipped / 1000)} kB with gzip), ${Math.round(loaded.all / 1000)} kB in all; first paint after ${round(first.map((o) => o.painted))} ms`)

/** The least that a page needs which draws with React what a database has, in ms from the beginning of its script. */
async function floor(): Promise<number> {
  const { outputFiles } = await build({
    stdin: { resolveDir: '.', contents: `
      import { createRoot } from 'react-dom/client'
      const open = indexedDB.open('floor', 1)
      open.onupgradeneeded = () => open.result.createObjectStore('rows').put('one message', 'key')
      open.onsuccess = () => {
        const get = open.result.transaction('rows').objectStore('rows').get('key')
        get.onsuccess = () => createRoot(document.getElementById('root')).render(get.result)
      }` },
    bundle: true, write: false, minify: true, format: 'iife', target: 'es2022', define: { 'process.env.NODE_ENV': '"production"' }, banner: { js: "performance.mark('petrel-script');" },
  })
  const context = await browser.newContext({ serviceWorkers: 'block' })
  const page = await context.newPage()
  await page.route(`${server.url}/floor`, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>floor</title><div id="root"></div><script src="/floor.js"></script>' }))
  await page.route(`${server.url}/floor.js`, (route) => route.fulfill({ contentType: 'text/javascript', body: outputFiles[0]?.text ?? '' }))
  await page.goto(`${server.url}/floor`)
  const all: number[] = []
  for (let i = 0; i < times; i++) {
    await page.reload()
    await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0)
    all.push(await page.evaluate(() => (performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0) - (performance.getEntriesByName('petrel-script')[0]?.startTime ?? 0)))
  }
  await context.close()
  return round(all)
}
console.log(`one row of a database, drawn by React in an empty page: painted ${await floor()} ms after the script began`)

const person = await (await Person.open(browser, links['alice'] ?? '')).ready()
await person.page.goto(`${server.url}/#/alice/c/${conv}`)
await person.page.locator('.message').first().waitFor()
await person.page.waitForFunction(() => navigator.serviceWorker.controller !== null || navigator.serviceWorker.ready.then(() => true))
await person.context.addInitScript(watch, shownLine)
const { context } = person
const address = person.page.url()
/** Opens the chat in a tab of its own, which has nothing in memory of what it needs, or again in the one that is open. */
async function openAgain(inNewTab: boolean): Promise<Opening> {
  const page = inNewTab ? await context.newPage() : person.page
  const isShown = page.waitForEvent('console', (m) => m.text() === shownLine)
  await (inNewTab ? page.goto(address, { waitUntil: 'commit' }) : page.reload({ waitUntil: 'commit' }))
  await isShown
  const opening = await measure(page, true)
  if (inNewTab) await page.close()
  return opening
}
for (const [name, offline, inNewTab] of [['in a new tab', false, true], ['in a new tab, without the network', true, true], ['after a reload', false, false], ['after a reload, without the network', true, false]] as const) {
  await context.setOffline(offline)
  if (inNewTab) await person.page.goto('about:blank') // only one tab is open, as with the others
  else if (person.page.url() !== address) await person.page.goto(address)
  const again: Opening[] = []
  for (let i = 0; i < times; i++) again.push(await openAgain(inNewTab))
  console.log(`a chat that the browser keeps, ${name}: messages are painted ${round(again.map((o) => o.shown - o.script))} ms after the script began (slowest ${Math.round(Math.max(...again.map((o) => o.shown - o.script)))}), ${round(again.map((o) => o.shown))} ms after the page was asked for`)
}
await browser.close()
await server.stop()
