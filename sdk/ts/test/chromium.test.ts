// The SDK in a real browser: the headless shell of Debian's Chromium, driven by Playwright.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { build } from 'esbuild'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import WebSocket from 'ws'
import { Client, type WebSocketClass } from '../src/index.js'
import type { page as exported } from './page.js'
import type { renders as count } from './renders.js'
import { type Server, startServer } from './server.js'
import { eventually, until } from './until.js'
import { vectors } from './vectors.js'

declare const petrel: typeof exported
declare const client: Client
declare const renders: typeof count
declare let timers: number // that have fired

const tabs = Number(process.env['PETREL_TABS'] ?? 5)
const idleSeconds = Number(process.env['PETREL_IDLE_SECONDS'] ?? 5)

describe('in Chromium', { timeout: 600_000 + 1000 * (2 * idleSeconds + 5 * tabs) }, () => {
  let pages: HttpServer
  let server: Server
  let browser: Browser
  let origin = ''
  let idle: ReturnType<typeof idlePage>

  before(async () => {
    const { outputFiles } = await build({
      entryPoints: { tab: 'test/page.ts', renders: 'test/renders.ts', page: 'examples/page.js', react: 'examples/react.jsx' }, outdir: '/', bundle: true, write: false, format: 'esm', target: 'es2022',
      ignoreAnnotations: true, jsx: 'automatic', define: { 'process.env.NODE_ENV': '"production"' },
    })
    const scripts = new Map(outputFiles.map((f) => [f.path, f.text]))
    pages = createServer((request, response) => {
      const script = scripts.get(request.url ?? '')
      response.setHeader('Content-Type', script === undefined ? 'text/html' : 'text/javascript')
      response.end(script ?? `<!doctype html><title>page</title><body><script type="module" src="${request.url}.js"></script>`)
    }).listen(0, '127.0.0.1')
    await once(pages, 'listening')
    origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`
    ;[server, browser] = await Promise.all([
      startServer(['alice', 'bob', 'carol'], [origin]),
      chromium.launch({ executablePath: process.env['PETREL_CHROMIUM'] ?? '/usr/bin/chromium-headless-shell', args: ['--no-sandbox', '--disable-gpu'] }),
    ])
    idle = idlePage()
    idle.catch(() => {}) // its test tells
  })
  after(async () => {
    await browser.close()
    pages.close()
    await server.stop()
  })

  /** Opens a tab with a connected client of a user. */
  async function tab(context: BrowserContext, user: string, at = server): Promise<Page> {
    const p = await context.newPage()
    p.setDefaultTimeout(60_000)
    await p.goto(`${origin}/tab`)
    await p.evaluate(({ url, token, account }) => {
      const made = new petrel.Client({ url, token, deviceKind: 'web', store: petrel.browserStore(account) })
      Object.assign(globalThis, { client: made })
      made.connect()
    }, { url: at.url, token: at.tokens[user] ?? '', account: user })
    await p.waitForFunction(() => client.status().state === 'live' && client.status().synced)
    return p
  }

  const shows = (p: Page, text: string): Promise<unknown> => p.waitForFunction((t) => client.conversations().some((v) => client.messages(v.id).some((m) => m.text === t)), text)

  /** Counts what a page sends and gets while nothing happens. It only waits, so it does that beside the tests. */
  async function idlePage(): Promise<{ sent: Record<string, number>; received: Record<string, number>; sockets: number; timers: number }> {
    const silence = idleSeconds < 60 ? 6 : 30 // seconds; 30 by itself. After half as long again without a ping the page asks itself: S-5.5
    const pinging = await startServer(['alice', 'bob'], [origin], { PETREL_HEARTBEAT__SILENCE: `${silence}s` })
    const context = await browser.newContext()
    await context.addInitScript(() => {
      const set = setTimeout
      timers = 0
      Object.assign(globalThis, { setTimeout: (f: () => void, ms: number) => set(() => (timers++, f()), ms) })
    })
    let frames: { sent: Record<string, number>; received: Record<string, number> } = { sent: {}, received: {} }
    let sockets = 0
    const count = (to: Record<string, number>, payload: string | Buffer): void => {
      const kind = Object.keys(JSON.parse(payload.toString()) as object).find((key) => key !== 'id') ?? ''
      to[kind] = (to[kind] ?? 0) + 1
    }
    context.on('page', (page) => page.on('websocket', (s) => {
      sockets++
      s.on('framesent', ({ payload }) => count(frames.sent, payload))
      s.on('framereceived', ({ payload }) => count(frames.received, payload))
    }))
    const p = await tab(context, 'alice', pinging)
    await p.evaluate(async () => (await client.send({ user: 'bob', text: 'hello' })).wait())
    const pongs = async (n: number): Promise<void> => {
      await eventually(`${n} pongs`, () => (frames.sent['pong'] ?? 0) >= n) // as often as the server pings
    }
    do { // cursors are told some time after the ack
      frames = { sent: {}, received: {} }
      await pongs(1)
    } while (Object.keys(frames.sent).join() !== 'pong')
    frames = { sent: {}, received: {} }
    const before = await p.evaluate(() => timers)
    await pongs(Math.ceil(idleSeconds / silence))
    const fired = await p.evaluate(() => timers) - before
    await context.close()
    await pinging.stop()
    return { ...frames, sockets, timers: fired }
  }

  test('all vectors pass', async () => {
    const p = await browser.newPage()
    await p.goto(`${origin}/tab`)
    assert.deepEqual(await p.evaluate((all) => petrel.playAll(JSON.parse(all) as Parameters<typeof petrel.playAll>[0]), JSON.stringify(vectors)), [])
    await p.close()
  })

  test('React renders again only what has changed', async () => {
    const p = await browser.newPage()
    await p.goto(`${origin}/renders`)
    await p.waitForFunction(() => typeof renders === 'function')
    assert.deepEqual(await p.evaluate(() => renders()), {
      nothing: [],
      message: ['history g1', 'list', 'messages g1', 'row g1', 'unread'],
      typing: ['list', 'row g2'],
      sent: ['pending g2'],
      'sent to a user': ['pending to carol'],
    })
    await p.close()
  })

  test('two tabs share a connection, and the store outlives them', async () => {
    const context = await browser.newContext()
    const sockets: string[] = []
    context.on('page', (p) => p.on('websocket', (s) => sockets.push(s.url())))
    const one = await tab(context, 'alice')
    const two = await tab(context, 'alice')
    assert.equal(sockets.length, 1)
    await two.evaluate(async () => (await client.send({ user: 'bob', text: 'from a tab' })).wait())
    await Promise.all([shows(one, 'from a tab'), shows(two, 'from a tab')])
    await one.close() // it led
    await two.waitForFunction(() => client.status().state === 'live')
    await two.evaluate(async () => (await client.send({ user: 'bob', text: 'from the other' })).wait())
    await two.close()
    const three = await context.newPage()
    await three.goto(`${origin}/tab`)
    const stored = await three.evaluate(async (url) => { // without a server
      const offline = new petrel.Client({ url, token: 'none', store: petrel.browserStore('alice') })
      await offline.unsent()
      await offline.open()
      return offline.conversations().flatMap((v) => offline.messages(v.id).map((m) => m.text))
    }, server.url)
    assert.deepEqual(stored.filter((t) => t), ['from a tab', 'from the other'])
    await context.close()
  })

  test('a frozen tab is left, and takes part again when it thaws', async () => {
    const context = await browser.newContext()
    const one = await tab(context, 'alice')
    const two = await tab(context, 'alice')
    const devtools = await context.newCDPSession(one)
    await devtools.send('Debugger.enable')
    await devtools.send('Debugger.pause') // none of its code runs, and it keeps its lock
    const opened = two.waitForEvent('websocket')
    await two.evaluate(async () => (await client.send({ user: 'carol', text: 'while it is frozen' })).wait())
    await opened // two has taken over
    await devtools.send('Debugger.disable')
    await shows(one, 'while it is frozen')
    await one.evaluate(async () => (await client.send({ user: 'carol', text: 'after it has thawed' })).wait())
    await shows(two, 'after it has thawed')
    await context.close()
  })

  test('logout in one tab wipes the data in all', async () => {
    const context = await browser.newContext()
    const one = await tab(context, 'bob')
    const two = await tab(context, 'bob')
    await one.evaluate(() => client.forget())
    await two.waitForFunction(() => client.status().error?.code === 'revoked')
    await two.waitForFunction(async () => (await indexedDB.databases()).length === 0)
    await context.close()
  })

  test('many tabs share one connection', async (t) => {
    const context = await browser.newContext()
    const sockets: string[] = []
    context.on('page', (p) => p.on('websocket', (s) => sockets.push(s.url())))
    const seen = await tab(context, 'alice')
    await context.addInitScript(() => Object.defineProperty(document, 'visibilityState', { value: 'hidden' })) // a person sees one tab
    const others: Page[] = []
    while (others.length < tabs - 1) others.push(await tab(context, 'alice'))
    const last = others.at(-1) ?? seen
    await last.evaluate(async () => (await client.send({ user: 'carol', text: 'from the last tab' })).wait())
    for (const p of [seen, ...others]) await shows(p, 'from the last tab')
    t.diagnostic(`${tabs} tabs: ${sockets.length} socket`)
    assert.equal(sockets.length, 1)
    await context.close()
  })

  for (const example of ['page', 'react']) {
    test(`the example ${example} shows and sends messages`, async () => {
      const bob = new Client({ url: server.url, token: server.tokens['bob'] ?? '', webSocket: WebSocket as unknown as WebSocketClass })
      const end = bob.connect()
      const context = await browser.newContext()
      const p = await context.newPage()
      await p.goto(`${origin}/${example}#${new URLSearchParams({ url: server.url, token: server.tokens['carol'] ?? '', account: 'carol', peer: 'bob' })}`)
      await p.getByRole('textbox').fill(`from ${example}`)
      await p.keyboard.press('Enter')
      await p.getByText(`carol: from ${example}`).waitFor()
      await until(bob, () => bob.messages(bob.direct('carol')).some((m) => m.text === `from ${example}`))
      await bob.send({ user: 'carol', text: `to ${example}` })
      await p.getByText(`bob: to ${example}`).waitFor()
      assert.equal(await p.getByRole('status').textContent(), 'live')
      await context.close()
      end()
      await bob.close()
    })
  }

  test('a message of a page reaches a bot in Node, and its answer the page', async () => {
    const bot = new Client({ url: server.url, token: server.tokens['carol'] ?? '', webSocket: WebSocket as unknown as WebSocketClass })
    const end = bot.connect()
    await until(bot, () => bot.status().synced)
    const context = await browser.newContext()
    const p = await tab(context, 'bob')
    await p.evaluate(async () => (await client.send({ user: 'carol', text: 'to the bot' })).wait())
    await until(bot, () => bot.messages(bot.direct('bob')).some((m) => m.text === 'to the bot'))
    await bot.send({ user: 'bob', text: 'from the bot' })
    await shows(p, 'from the bot')
    end()
    await bot.close()
    await context.close()
  })

  test('an idle page sends nothing but pongs', async (t) => {
    const seen = await idle
    t.diagnostic(`${idleSeconds} s: sent ${JSON.stringify(seen.sent)}, received ${JSON.stringify(seen.received)}, timers that fired: ${seen.timers}`)
    assert.deepEqual([Object.keys(seen.sent), Object.keys(seen.received), seen.sockets], [['pong'], ['ping'], 1])
  })
})
