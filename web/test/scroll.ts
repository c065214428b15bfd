// Scrolls through a long conversation, up and down, while messages, edits and reactions come
// in, and prints what it costs: `npm run scroll -- [messages] [whole|up|down]`, 100,000 by itself.
// It scrolls at both ends, and goes from one to the other and back: by jumps, or all the way (whole),
// or all the way in one direction.
import { launch, Person } from './browser.js'
import { Server } from './server.js'
import { heapMB, quantile, textOf, traced, walk } from './walk.js'

const count = Number(process.argv[2] ?? 100_000)
const way = process.argv[3] ?? ''
const stepPx = 120 // by which the view moves in each frame: a fast wheel
const flingPx = 900 // the same on the whole way
const pieceFrames = 1000 // of the whole way, after which a line says how far it is
const tracedFrames = 1200 // of each direction whose cost is measured
const sending = 64 // at once, when the conversation is made

const server = await Server.start()
const links = await server.users('alice', 'bob')
const { conv } = await server.admin('AdminService/CreateGroup', { title: 'long', members: [{ user: 'alice', role: 'ROLE_OWNER' }, { user: 'bob' }] }) as { conv: string }
let next = 0
const began = Date.now()
await Promise.all(Array.from({ length: sending }, async () => {
  for (let i = next++; i < count; i = next++) await server.sendAs(i % 3 === 0 ? 'alice' : 'bob', { conv, text: textOf(i), ...(i % 10 === 9 && i > 400 ? { rel: { replyTo: String(i - 300) } } : {}) })
}))
console.log(`${count} messages made in ${Math.round((Date.now() - began) / 1000)} s`)

const browser = await launch()
const person = await (await Person.open(browser, links['alice'] ?? '')).ready()
const { page } = person
page.on('console', (m) => console.log(m.text()))
const devtools = await page.context().newCDPSession(page)
await page.goto(`${server.url}/#/alice/c/${conv}`)
await page.locator('.message').first().waitFor()
const heapBefore = await heapMB(page, devtools)
const round = (n: number): number => Math.round(n * 10) / 10
const unread = page.locator('.unread-line')
if (await unread.count() > 0) await page.getByRole('button', { name: 'To the newest message' }).click()

let over = false
const noise = (async () => { // what happens meanwhile
  for (let i = 0; !over; i++) {
    const { seq } = await server.sendAs('bob', { conv, text: `new ${i}` })
    if (i % 3 === 0) await server.sendAs('bob', { conv, edit: { target: String(seq), text: `edited ${i}` } })
    if (i % 3 === 1) await server.admin('AdminService/SendAs', { from: 'bob', send: { conv, clientMsgId: crypto.randomUUID(), edit: { target: String(2 + i * 3), text: `edited far back ${i}` } } }).catch(() => {}) // alice's are not bob's to edit
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
})()

async function measured(name: string, step: number, frames = tracedFrames): Promise<void> {
  const { result, cost } = await traced(devtools, () => page.evaluate(walk, { step, frames }))
  console.log(`${name}: ${cost.frames.length} frames of ${step} px, ${result.movedPx} px in all; script, style and layout of a frame: p50 ${round(quantile(cost.frames, 0.5))} ms, p95 ${round(quantile(cost.frames, 0.95))} ms, p99 ${round(quantile(cost.frames, 0.99))} ms; longest task ${round(cost.longestTask)} ms; largest jump ${round(result.jumpPx)} px; at most ${result.rows} rows; heap ${round(await heapMB(page, devtools))} MB`)
}

/** All the way to one end, as fast as the page goes. */
async function fling(name: string, step: number): Promise<void> {
  const start = Date.now()
  let [movedPx, jumpPx, rows, over] = [0, 0, 0, false]
  while (!over) {
    const piece = await page.evaluate(walk, { step, frames: pieceFrames })
    over = piece.frames < pieceFrames
    movedPx += piece.movedPx
    jumpPx = Math.max(jumpPx, piece.jumpPx)
    rows = Math.max(rows, piece.rows)
    console.log(`${over ? '' : 'on the way '}${name}: ${movedPx} px in ${Math.round((Date.now() - start) / 1000)} s; largest jump ${round(jumpPx)} px; at most ${rows} rows; heap ${round(await heapMB(page, devtools))} MB`)
  }
}

/** Waits for the first entry of all, which made the group. */
async function oldest(): Promise<void> {
  await page.waitForFunction(() => document.querySelector('.timeline-view .line-service') !== null)
}

await measured('up from the newest', -stepPx)
if (way === 'whole' || way === 'up') await fling('to the oldest', -flingPx)
else { // all messages are of today
  await page.locator('.chat-header').getByRole('button', { name: 'More' }).click()
  await page.getByRole('menuitem', { name: 'Jump to a date' }).click()
  const { result, cost } = await traced(devtools, async () => {
    const start = Date.now()
    await page.locator('[aria-current="date"]').click()
    await oldest()
    return Date.now() - start
  })
  console.log(`jump to the oldest: ${result} ms; longest task ${round(cost.longestTask)} ms`)
}
await oldest()
await measured('down from the oldest', stepPx)
if (way === 'whole' || way === 'down') await fling('to the newest', flingPx)
else await page.getByRole('button', { name: 'To the newest message' }).click()
await page.evaluate(walk, { step: -stepPx, frames: 4 }) // at the end itself the view follows
await measured('still near the newest', 0, 200)
over = true
await noise
console.log(`heap ${round(heapBefore)} MB before, ${round(await heapMB(page, devtools))} MB after; ${count} messages`)
await browser.close()
await server.stop()
