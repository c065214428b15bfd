// <petrel-chat> in pages of another origin, with a strict policy, in Chromium, against the real binary.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import axe from 'axe-core'
import { build } from 'esbuild'
import type { Browser, Page } from 'playwright-core'
import { areTimesJudged, drawn, launch, Person, profile, suiteMs, troubles, until } from './browser.js'
import { readable } from '../ui/readable.js'
import { Server } from './server.js'

const built = path.resolve('../internal/web/dist/embed')
const gzipped = (file: string): number => gzipSync(readFileSync(path.join(built, file)), { level: 9 }).length

test('the script of <petrel-chat> is 2 kB until one is shown, and then at most 160 kB', () => {
  const parts = readdirSync(path.join(built, 'assets')).filter((f) => /^mount-[\w-]+\.js$/.test(f))
  assert.equal(parts.length, 1)
  const [entry, part] = [gzipped('petrel-chat.js'), gzipped(`assets/${parts[0]}`)]
  assert.ok(entry <= 2000 && part <= 160_000, `${entry} and ${part} bytes`)
})

test('on a server the module can be imported, and defines nothing', async () => {
  const file = path.join(built, 'petrel-chat.js')
  assert.equal(typeof (await import(file) as { PetrelChat: unknown }).PetrelChat, 'function')
})

interface Told {
  readonly name: string
  readonly detail: { readonly messages?: number; readonly seq?: number; readonly code?: string; readonly peer?: string }
}

describe('<petrel-chat>', { timeout: suiteMs, concurrency: 2 }, () => {
  let server: Server
  let browser: Browser
  let host: HttpServer
  let origin = ''
  let links: Readonly<Record<string, string>>
  const pages = new Map<string, string>()
  const parts = new Map<string, string>() // of the application in React, by path
  const asked: { user: string | undefined; device: { id: string; kind: string } }[] = [] // of /chat-token

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname } = new URL(req.url ?? '/', origin)
    if (pathname === '/chat-token') {
      let body = ''
      for await (const part of req) body += String(part)
      const { device } = JSON.parse(body) as { device: { id: string; kind: string } }
      const user = /user=(\w+)/.exec(req.headers.cookie ?? '')?.[1]
      asked.push({ user, device })
      res.statusCode = user ? 200 : 401
      res.end(user ? JSON.stringify(await server.admin('AdminService/MintToken', { user, device })) : '')
      return
    }
    const text = pages.get(pathname) ?? parts.get(pathname)
    res.setHeader('Content-Type', pathname.endsWith('.js') ? 'text/javascript' : 'text/html; charset=utf-8')
    res.setHeader('Content-Security-Policy', `default-src 'none'; script-src 'self' ${server.url}; connect-src 'self' ${server.url} ${server.url.replace('http', 'ws')}; style-src 'self'; require-trusted-types-for 'script'`)
    res.statusCode = text === undefined ? 404 : 200
    res.end(text)
  }

  /** A page of somebody else: what its body says, and what tells of all events of its elements. */
  function page(name: string, body: string, script = ''): string {
    pages.set(`/${name}.js`, `
      globalThis.told = []
      for (const name of ['petrel-ready', 'petrel-unread', 'petrel-sent', 'petrel-open', 'petrel-error']) document.addEventListener(name, ({ detail }) => told.push({ name, detail }), true)
      ${script}`)
    pages.set(`/${name}`, `<!doctype html><html lang="en"><head><title>A shop</title><script src="/${name}.js"></script><script type="module" src="${server.url}/embed/petrel-chat.js"></script></head><body><h1>A shop</h1><input id="search" aria-label="Search of the shop">${body}</body></html>`)
    return `${origin}/${name}`
  }
  const element = (user: string, more = ''): string => `<petrel-chat server="${server.url}" user="${user}" token="${server.tokens[user]}" ${more}></petrel-chat>`
  const withStyles = (css: string): string => `addEventListener('DOMContentLoaded', () => { const s = new CSSStyleSheet(); s.replaceSync(${JSON.stringify(css)}); document.adoptedStyleSheets = [s] })`
  const told = (p: Page, name: string): Promise<Told['detail'][]> => p.evaluate((n) => (globalThis as unknown as { told: Told[] }).told.filter((e) => e.name === n).map((e) => e.detail), name)
  const untilTold = (p: Page, name: string, least = 1): Promise<unknown> => p.waitForFunction(([n, k]) => (globalThis as unknown as { told: Told[] }).told.filter((e) => e.name === n).length >= Number(k), [name, least])

  /** Loads a page again, whose client gets no answer any more after the function that it returns was called. */
  async function reloadThroughRelay(p: Page): Promise<() => void> {
    let silent = false
    await p.routeWebSocket(/\/v1\/ws/, (socket) => {
      const to = socket.connectToServer()
      socket.onMessage((m) => {
        if (!silent) to.send(m)
      })
    })
    await p.reload()
    return () => {
      silent = true
    }
  }

  before(async () => {
    host = createServer((req, res) => void answer(req, res)).listen(0, '127.0.0.1')
    await once(host, 'listening')
    origin = `http://127.0.0.1:${(host.address() as AddressInfo).port}`
    ;[server, browser] = await Promise.all([Server.start({ PETREL_LISTEN__ORIGINS: origin }), launch()])
    links = await server.users('alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'gina', 'hank', 'ivy', 'jack', 'kate', 'liam')
  })
  after(async () => {
    await browser.close()
    host.close()
    await server.stop()
    assert.deepEqual(troubles(), []) // no policy of a page was broken
  })

  test('a person chats in a page of another origin, which learns of it, and stays as it was', async () => {
    const alice = await Person.open(browser, page('one', element('alice', 'peer="bob"'), `
      addEventListener('keydown', (e) => { if (e.key === '/' && !/^(INPUT|TEXTAREA)$/.test(e.target.tagName)) document.querySelector('#search').focus() })
    `))
    const p = alice.page
    await alice.field.waitFor()
    await untilTold(p, 'petrel-ready')
    assert.equal(await p.evaluate(() => document.activeElement), await p.evaluate(() => document.body)) // it takes no focus
    const bob = await (await Person.open(browser, links['bob'] ?? '')).ready()
    await alice.field.click()
    await alice.field.pressSequentially('and/or') // the shop's key / is not for what is written here
    await alice.field.press('Enter')
    await bob.row('alice').click()
    await bob.message('and/or').waitFor()
    await alice.message('and/or').getByRole('img', { name: 'Read' }).waitFor()
    await untilTold(p, 'petrel-sent')
    assert.equal((await told(p, 'petrel-sent'))[0]?.seq, 1)
    await p.locator('#search').focus()
    await bob.say('welcome')
    await alice.message('welcome').waitFor()
    assert.equal(await p.evaluate(() => document.activeElement?.id), 'search') // what comes takes no focus either
    // A layer over the chat is in its tree, and gives the focus back.
    await alice.field.click()
    await alice.choose('welcome', 'Reply')
    assert.ok(await p.evaluate(() => document.activeElement?.shadowRoot?.activeElement?.matches('.composer-field')))
    await alice.say('thanks')
    await bob.message('thanks').locator('.quote', { hasText: 'welcome' }).waitFor()
    await p.locator('.chat-subtitle', { hasText: 'online' }).waitFor()
    await alice.choose('welcome', 'Forward')
    await p.getByRole('dialog').getByRole('searchbox').waitFor()
    assert.ok(await p.evaluate(() => document.activeElement?.shadowRoot?.activeElement?.matches('dialog input')))
    await p.keyboard.press('Escape')
    await p.getByRole('dialog').waitFor({ state: 'detached' })
    await p.getByRole('button', { name: 'Emoji' }).click()
    await p.locator('.emoji').nth(2).click() // inside of the tree, so it stays open
    await p.locator('.emoji').nth(3).click()
    assert.notEqual(await alice.field.inputValue(), '')
    await p.locator('h1', { hasText: 'A shop' }).click() // outside of it
    await p.locator('.emoji-picker').waitFor({ state: 'detached' })
    assert.deepEqual(await p.evaluate(() => [location.hash, history.length, document.title, document.documentElement.dataset['theme'] ?? '', document.adoptedStyleSheets.length, document.head.querySelectorAll('style,link').length]), ['', 2, 'A shop', '', 0, 0])
    assert.deepEqual(await p.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0)
    await Promise.all([alice.context.close(), bob.context.close()])
  })

  test('Enter chooses a word of an input method in a shadow tree too', async () => {
    const carol = await Person.open(browser, page('ime', element('carol', 'peer="dave" lang="zh"')))
    await carol.field.click()
    const cdp = await carol.context.newCDPSession(carol.page)
    await cdp.send('Input.imeSetComposition', { text: 'ni', selectionStart: 2, selectionEnd: 2 })
    await cdp.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Process', code: 'Enter', windowsVirtualKeyCode: 229, nativeVirtualKeyCode: 229 })
    await carol.field.dispatchEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, composed: true })
    await cdp.send('Input.insertText', { text: '你好' })
    assert.equal(await carol.field.inputValue(), '你好')
    assert.equal(await carol.page.locator('.message').count(), 0)
    await carol.field.press('Enter')
    await carol.message('你好').waitFor()
    assert.equal(await carol.page.locator('.petrel').getAttribute('lang'), 'zh-CN')
    await carol.context.close()
  })

  test('the list opens conversations without a trace in the history, and the page can keep them for itself', async () => {
    await server.sendAs('gina', { user: 'erin', text: 'from gina' })
    await server.sendAs('hank', { user: 'erin', text: 'from hank' })
    const erin = await Person.open(browser, page('list', element('erin'), withStyles('petrel-chat { width: auto }')))
    await erin.row('gina').click()
    await erin.field.waitFor()
    assert.ok(await erin.page.evaluate(() => document.activeElement?.shadowRoot?.activeElement?.matches('.composer-field'))) // the person came here
    assert.equal(await erin.page.evaluate(() => history.length), 2)
    await untilTold(erin.page, 'petrel-unread', 2)
    assert.equal((await told(erin.page, 'petrel-unread')).at(-1)?.messages, 1)
    await erin.page.evaluate(() => document.addEventListener('petrel-open', (e) => e.preventDefault(), true))
    await erin.row('hank').click()
    assert.equal((await told(erin.page, 'petrel-open')).at(-1)?.peer, 'hank')
    await erin.page.getByRole('heading', { name: 'gina' }).waitFor()
    await erin.context.close()
  })

  test('an element that is moved stays as it is; one that is removed leaves nothing, and comes back', async () => {
    const person = await Person.open(browser, page('moved', `<div id="a">${element('frank', 'peer="gina"')}</div><div id="b"></div>${element('frank')}`))
    const p = person.page
    const open = new Set<unknown>()
    p.on('websocket', (s) => {
      open.add(s)
      s.on('close', () => open.delete(s))
    })
    p.on('framenavigated', () => open.clear()) // nobody tells of the end of those of the former page
    await p.reload()
    await person.field.fill('half a')
    await p.evaluate(() => document.querySelector('#b')?.append(document.querySelector('petrel-chat') as Element))
    await drawn(p)
    assert.equal(await person.field.inputValue(), 'half a')
    const untilOpen = async (n: number): Promise<void> => {
      await until(`${n} sockets are open`, () => open.size === n)
    }
    await untilOpen(1) // both elements are for the same account
    await p.evaluate(() => {
      const refs = [...document.querySelectorAll('petrel-chat')].map((e) => new WeakRef(e))
      Object.assign(globalThis, { refs, html: document.body.innerHTML })
      for (const e of document.querySelectorAll('petrel-chat')) e.remove()
    })
    await untilOpen(0)
    const cdp = await person.context.newCDPSession(p)
    await until('the elements are collected', async () => {
      await cdp.send('HeapProfiler.collectGarbage')
      return p.evaluate(() => (globalThis as unknown as { refs: WeakRef<Element>[] }).refs.every((r) => !r.deref()))
    })
    await p.evaluate(([server, token]) => {
      const e = Object.assign(document.createElement('petrel-chat'), { server, user: 'frank', peer: 'gina', token: () => token })
      document.body.append(e)
    }, [server.url, server.tokens['frank']])
    await person.field.waitFor()
    assert.equal(await person.field.inputValue(), 'half a') // the draft
    await person.context.close()
  })

  test('a message is read when the element is in view, and not before', async () => {
    const { conv, seq } = await server.sendAs('hank', { user: 'gina', text: 'far below' })
    const gina = await Person.open(browser, page('below', `<p id="space"></p>${element('gina', 'peer="hank"')}`, "addEventListener('DOMContentLoaded', () => { document.querySelector('#space').style.height = '4000px' })"))
    await gina.message('far below').waitFor()
    await gina.page.bringToFront()
    await gina.page.waitForTimeout(300)
    const unread = async (): Promise<number | undefined> => (await told(gina.page, 'petrel-unread')).at(-1)?.messages
    assert.equal(await unread(), 1)
    await gina.page.locator('petrel-chat').scrollIntoViewIfNeeded()
    await gina.page.waitForFunction(() => (globalThis as unknown as { told: Told[] }).told.findLast((e) => e.name === 'petrel-unread')?.detail.messages === 0)
    assert.ok(conv && seq)
    await gina.context.close()
  })

  test('what the page hides, or what is below its window, is not read', async () => {
    await server.sendAs('hank', { user: 'kate', text: 'first' })
    const css = 'petrel-chat { opacity: 0; transition: opacity 50ms; height: 500px; max-height: none } .shown { opacity: 1 } #below { height: 4000px }'
    const kate = await Person.open(browser, page('hidden', `${element('kate', 'peer="hank"')}<p id="below"></p>`, withStyles(css)))
    const p = kate.page
    const unread = async (): Promise<number | undefined> => (await told(p, 'petrel-unread')).at(-1)?.messages
    const untilUnread = (n: number): Promise<unknown> => p.waitForFunction((n) => (globalThis as unknown as { told: Told[] }).told.findLast((e) => e.name === 'petrel-unread')?.detail.messages === n, n)
    await p.locator('.message').waitFor()
    await p.bringToFront()
    await p.waitForTimeout(300)
    assert.equal(await unread(), 1)
    await p.locator('petrel-chat').evaluate((e) => e.setAttribute('class', 'shown'))
    await untilUnread(0)
    await p.setViewportSize({ width: 1000, height: 450 }) // most of the element is in view, and the newest message is not
    await p.evaluate(() => scrollTo(0, 0))
    await server.sendAs('hank', { user: 'kate', text: 'second' })
    await kate.message('second').waitFor()
    assert.ok(((await kate.message('second').boundingBox())?.y ?? 0) > 450)
    await p.waitForTimeout(300)
    assert.equal(await unread(), 1)
    await p.evaluate(() => scrollTo(0, 200))
    await untilUnread(0)
    await kate.context.close()
  })

  test('an element opens where the person was reading, until they log out', async () => {
    for (let i = 1; i <= 40; i++) await server.sendAs('hank', { user: 'liam', text: `line ${i}` })
    const liam = await Person.open(browser, page('place', element('liam', 'peer="hank"')))
    const p = liam.page
    const top = (): Promise<{ text: string | undefined; at: number } | undefined> => p.evaluate(() => {
      const view = document.querySelector('petrel-chat')?.shadowRoot?.querySelector('.timeline-view')?.getBoundingClientRect()
      const bodies = [...document.querySelector('petrel-chat')?.shadowRoot?.querySelectorAll('.message .body') ?? []]
      const first = bodies.find((b) => b.getBoundingClientRect().bottom > (view?.top ?? 0))
      return first && { text: first.textContent ?? undefined, at: Math.round(first.getBoundingClientRect().top - (view?.top ?? 0)) }
    })
    await liam.message('line 1').waitFor()
    await p.locator('.timeline-view').evaluate((v) => { v.scrollTop = v.scrollHeight }) // all is read: else it would open at what is not
    const toTheNewest = p.getByRole('button', { name: 'To the newest message' })
    await toTheNewest.waitFor({ state: 'detached' })
    await until('all is read', async () => (await told(p, 'petrel-unread')).at(-1)?.messages === 0)
    await p.locator('.timeline-view').evaluate((v) => { v.scrollTop = 500 })
    await toTheNewest.waitFor()
    const before = await top()
    assert.ok(before && before.text !== 'line 1')
    const chat = await p.locator('petrel-chat').elementHandle()
    await chat?.evaluate((e) => e.remove())
    await drawn(p)
    await chat?.evaluate((e) => document.body.append(e))
    await untilTold(p, 'petrel-ready', 2)
    await until('it is where it was', async () => {
      const after = await top()
      return after !== undefined && after.text === before.text && Math.abs(after.at - before.at) <= 2
    })
    assert.equal(await p.evaluate(() => Object.keys(localStorage).filter((k) => k.includes(':place:')).length), 1)
    await p.evaluate(() => document.querySelector('petrel-chat')?.logOut())
    assert.deepEqual(await p.evaluate(() => Object.keys(localStorage)), [])
    await liam.context.close()
  })

  test('the back end of the page logs the person in once for all tabs; after a logout nothing is left', async () => {
    const address = page('login', `<petrel-chat server="${server.url}" user="dave" peer="carol" token-url="/chat-token"></petrel-chat>`)
    const dave = await Person.open(browser, address)
    await dave.page.getByRole('alert').getByText('You are logged out').waitFor() // nobody is logged in to the shop
    assert.equal((await told(dave.page, 'petrel-error'))[0]?.code, 'unauthenticated')
    await dave.context.addCookies([{ name: 'user', value: 'dave', url: origin }])
    await dave.page.getByRole('button', { name: 'Try again' }).click()
    await dave.say('from the first tab')
    await dave.message('from the first tab').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    const askedByDave = (): typeof asked => asked.filter((a) => a.user === 'dave')
    const before = askedByDave().length
    const second = await Person.open(dave.context, address)
    await second.say('from the second tab')
    await dave.message('from the second tab').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    assert.equal(askedByDave().length, before)
    assert.equal(askedByDave()[0]?.device.kind, 'web')
    assert.equal(new Set(askedByDave().map((a) => a.device.id)).size, 1)
    assert.equal(await second.page.evaluate(() => document.querySelector('petrel-chat')?.logOut()), true)
    const left = (): Promise<unknown[]> => second.page.evaluate(async () => [...Object.keys(localStorage), ...(await indexedDB.databases()).map((d) => d.name).filter((n) => n?.startsWith('petrel:'))])
    // Both tabs remove the database, each at its own pace: it is there once more for a moment, as the later one empties it first.
    let empty = 0
    await until('nothing is left, and stays so', async () => (empty = (await left()).length > 0 ? 0 : empty + 1) >= 20)
    await dave.page.getByText('You are logged out').waitFor()
    await dave.context.close()
  })

  test('all elements of an account begin anew and end together', async () => {
    const ivy = await Person.open(browser, page('two', ['jack', 'hank'].map((peer) => `<petrel-chat server="${server.url}" user="ivy" peer="${peer}" token-url="/chat-token"></petrel-chat>`).join('')))
    const p = ivy.page
    const silence = await reloadThroughRelay(p)
    await p.getByRole('alert').nth(1).waitFor()
    await ivy.context.addCookies([{ name: 'user', value: 'ivy', url: origin }])
    await p.getByRole('button', { name: 'Try again' }).first().click()
    await ivy.field.nth(1).waitFor()
    await ivy.field.first().fill('to jack')
    await ivy.field.first().press('Enter')
    await ivy.stored('to jack')
    await ivy.field.nth(1).fill('half a')
    silence()
    const out = p.evaluate(() => document.querySelector('petrel-chat')?.logOut())
    await p.getByRole('alert').nth(1).waitFor(areTimesJudged ? { timeout: 3000 } : {}) // the server is asked for 5 s
    assert.equal(await p.locator('.message, .composer-field').count(), 0)
    assert.equal(await out, false)
    assert.deepEqual(await p.evaluate(() => Object.keys(localStorage)), [])
    await ivy.context.close()
  })

  test('another token is tried after a failure; another user finds nothing of the former one', async () => {
    const jack = await Person.open(browser, page('again', `<petrel-chat server="${server.url}" user="jack" peer="ivy" token="void"></petrel-chat>`))
    const p = jack.page
    await p.getByRole('alert').waitFor()
    await p.locator('petrel-chat').evaluate((e, token) => e.setAttribute('token', token), server.tokens['jack'] ?? '')
    await jack.field.fill('half of jack')
    const before = (await told(p, 'petrel-ready')).length
    await p.locator('petrel-chat').evaluate((e, token) => {
      e.setAttribute('user', 'kate')
      e.setAttribute('token', token)
    }, server.tokens['kate'] ?? '')
    await untilTold(p, 'petrel-ready', before + 1)
    assert.equal(await jack.field.inputValue(), '')
    await jack.say('from kate')
    await jack.message('from kate').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    await jack.context.close()
  })

  test('an element whose script is not there says so, tells the page, and tries again', async () => {
    const context = await profile(browser)
    await context.route(/\/embed\/assets\/mount-/, (route) => route.fulfill({ status: 404 }))
    const jack = await Person.open(context, page('gone', element('jack', 'peer="ivy"')))
    const p = jack.page
    await p.getByRole('alert').getByText('The chat was not loaded').waitFor()
    assert.equal((await told(p, 'petrel-error')).length, 1)
    await context.unroute(/\/embed\/assets\/mount-/)
    await p.getByRole('button', { name: 'Try again' }).click()
    await jack.field.waitFor()
    assert.equal(await p.getByRole('alert').count(), 0)
    await context.close()
  })

  test('why there is no chat is said in the language of the element', async () => {
    const p = (await Person.open(browser, page('reason', `<petrel-chat server="${server.url}" user="alice" peer="bob" lang="zh"></petrel-chat>`, `
      addEventListener('DOMContentLoaded', () => { document.querySelector('petrel-chat').token = () => ({ user: 'bob', accessToken: 'x' }) })
    `))).page
    assert.doesNotMatch(await p.getByRole('alert').innerText(), /[A-Za-z]{3}/)
    assert.equal((await told(p, 'petrel-error'))[0]?.code, 'invalid')
    await p.context().close()
  })

  test('an element that shows another conversation tells how much is unread there, be it as much as before', async () => {
    const [first = '', second = ''] = await Promise.all(['First', 'Second'].map(async (title) => (await server.admin('AdminService/CreateGroup', { title, members: [{ user: 'carol', role: 'ROLE_OWNER' }, { user: 'ivy' }] }) as { conv: string }).conv))
    for (const conv of [first, second]) await server.sendAs('carol', { conv, text: 'for ivy' })
    const ivy = await Person.open(browser, page('turned', element('ivy', `conv="${first}"`), 'document.hasFocus = () => false'))
    const p = ivy.page
    await ivy.message('for ivy').waitFor()
    await until('it tells how much is unread', async () => (await told(p, 'petrel-unread')).at(-1)?.messages === 1)
    const before = (await told(p, 'petrel-unread')).length
    await p.locator('petrel-chat').evaluate((e, conv) => e.setAttribute('conv', conv), second)
    await untilTold(p, 'petrel-unread', before + 1)
    assert.equal((await told(p, 'petrel-unread')).at(-1)?.messages, 1)
    await ivy.context.close()
  })

  test('axe finds nothing serious in an element, light and dark', async () => {
    await server.sendAs('alice', { user: 'carol', text: 'for axe' })
    for (const theme of ['light', 'dark']) {
      const carol = await Person.open(browser, page(`axe-${theme}`, element('carol', `theme="${theme}"`)), { reducedMotion: 'reduce', bypassCSP: true })
      await carol.row('alice').click()
      await carol.message('for axe').waitFor()
      await carol.page.evaluate(axe.source)
      await carol.page.waitForFunction(() => [document, ...[...document.querySelectorAll('petrel-chat')].flatMap((e) => e.shadowRoot ?? [])]
        .every((root) => root.getAnimations().every((a) => a.playState !== 'running'))) // colours have arrived
      const { violations } = await carol.page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'cat.semantics'] }))
      assert.deepEqual(violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').flatMap((v) => v.nodes.map((n) => `${theme}: ${v.id}: ${n.html.slice(0, 200)}`)), [])
      await carol.context.close()
    }
  })

  test('an element says, and tells the page, that there is no such conversation', async () => {
    const liam = await Person.open(browser, page('missing', element('liam', 'conv="nothing-there"')))
    await liam.page.getByText('There is no such chat, or you are not in it.').waitFor()
    await untilTold(liam.page, 'petrel-error')
    assert.deepEqual((await told(liam.page, 'petrel-error')).map((e) => e.code), ['no_conversation'])
    assert.equal(await liam.page.getByText('@', { exact: true }).count(), 0)
    assert.equal(await liam.page.getByText('Write the first message').count(), 0)
    await liam.context.close()
  })

  test('an unknown conversation has its line in the middle of the element, and no name, picture or field, also while the connection is lost', async () => {
    for (const [width, lang, line] of [[390, 'en', 'There is no such chat, or you are not in it.'], [1000, 'en', 'There is no such chat, or you are not in it.'], [390, 'zh', '没有这个会话，或者你不在其中。'], [1000, 'zh', '没有这个会话，或者你不在其中。']] as const) {
      const context = await profile(browser, { viewport: { width, height: 700 } })
      let dialled = 0
      let drop = (): void => {}
      await context.routeWebSocket(/\/v1\/ws/, (socket) => {
        if (++dialled > 1) return // the answer never comes
        const to = socket.connectToServer()
        drop = () => void to.close().then(() => socket.close())
      })
      const p = (await Person.open(context, page('unknown', element('liam', `conv="nothing-there" lang="${lang}"`)))).page
      const parts = p.locator('petrel-chat').locator('h1, .avatar, textarea, .composer-none, .chat-header:visible')
      const middle = async (): Promise<void> => {
        const [said, whole] = await Promise.all([p.getByText(line), p.locator('petrel-chat')].map((l) => l.boundingBox()))
        assert.ok(said && whole)
        assert.ok(Math.abs(said.x + said.width / 2 - whole.x - whole.width / 2) <= 1 && Math.abs(said.y + said.height / 2 - whole.y - whole.height / 2) <= 1, `${width} px: ${JSON.stringify({ said, whole })}`)
        assert.equal(await parts.count(), 0)
      }
      await p.getByText(line).waitFor()
      await middle()
      drop()
      await until('the connection is lost', () => dialled > 1)
      await middle()
      await context.close()
    }
  })

  test('a conversation has no name before one is known', async () => {
    const context = await profile(browser)
    await context.routeWebSocket(/\/v1\/ws/, () => {}) // the server says nothing
    const liam = await Person.open(context, page('early', element('liam', 'conv="not-known-yet"')))
    await liam.page.getByRole('status', { name: 'Loading' }).waitFor()
    await liam.field.waitFor() // a group may be new here, and is written to
    assert.equal(await liam.page.locator('petrel-chat').locator('h1, .avatar, .composer-none').count(), 0)
    await context.close()
  })

  test('the place of the field says why nobody writes there: the person has left, or the group was dissolved', async () => {
    for (const [how, of, line, short] of [['LeaveGroup', 'jack', 'You are not a member of this group any more.', 'Not a member any more'], ['DissolveGroup', 'hank', 'The group was dissolved.', 'Dissolved']] as const) {
      const { conv } = await server.admin('AdminService/CreateGroup', { title: how, members: [{ user: 'hank', role: 'ROLE_OWNER' }, { user: 'jack' }] }) as { conv: string }
      const jack = await Person.open(browser, page(how, element('jack', `conv="${conv}"`)))
      await jack.field.waitFor()
      const { ok } = await fetch(`${server.url}/petrel.v1.ConversationService/${how}`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens[of]}` }, body: JSON.stringify({ conv }) })
      assert.ok(ok)
      await jack.page.locator('.composer-none', { hasText: line }).waitFor()
      await jack.page.locator('.chat-subtitle', { hasText: short }).waitFor()
      await jack.page.getByRole('heading', { name: how }).waitFor()
      await jack.context.close()
    }
  })

  test('a token of somebody else shows nobody anything', async () => {
    const p = (await Person.open(browser, page('other', `<petrel-chat server="${server.url}" user="alice" peer="bob" token="${server.tokens['bob']}"></petrel-chat>`))).page
    await p.getByRole('alert').waitFor()
    assert.equal((await told(p, 'petrel-error'))[0]?.code, 'invalid')
    assert.equal(await p.locator('.message').count(), 0)
    await p.context().close()
  })

  test('an application in React of its own shows it from the package, and gives it a function', async () => {
    const { outputFiles } = await build({
      entryPoints: ['test/application.tsx'], bundle: true, splitting: true, format: 'esm', jsx: 'automatic', write: false, outdir: '/application',
      alias: { '@petrel-im/chat': path.resolve('embed/dist/petrel-chat.js') }, define: { 'process.env.NODE_ENV': '"production"', SERVER: JSON.stringify(server.url), TOKEN: JSON.stringify(server.tokens['bob']) },
    })
    for (const f of outputFiles) parts.set(f.path, f.text)
    const address = page('react', '<div id="app"></div><script type="module" src="/application/application.js"></script>')
    pages.set('/react', pages.get('/react')?.replace(/<script type="module" src="[^"]*petrel-chat.js"><\/script>/, '') ?? '')
    const bob = await Person.open(browser, address)
    await bob.page.getByRole('heading', { name: 'frank' }).waitFor()
    await bob.page.locator('output', { hasText: /[1-9]/ }).waitFor() // it was asked, which has made the application draw again, with another function
    await bob.field.evaluate((f) => f.setAttribute('data-same', ''))
    await bob.page.evaluate(() => (globalThis as unknown as { draw: () => void }).draw())
    await bob.say('from React')
    await bob.page.getByText(/^newest: [1-9]/).waitFor()
    await bob.message('from React').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    assert.equal(await bob.page.locator('.composer-field[data-same]').count(), 1)
    await bob.page.getByRole('button', { name: 'dave' }).click()
    await bob.page.getByRole('heading', { name: 'dave' }).waitFor()
    await bob.context.close()
  })

  test('the styles of the page do not reach it, but for those that it offers; it follows the size of the element and the colours of the page', async () => {
    const css = 'html { font-size: 40%; color-scheme: dark } * { letter-spacing: 9px; color: red; --bubble-own: red } petrel-chat { --petrel-accent: red; --petrel-bubble-own: rgb(1, 2, 3); width: 340px; border: 0 }'
    const person = await Person.open(browser, page('styles', element('hank', 'peer="alice"'), withStyles(css)))
    await person.say('hello')
    await person.message('hello').waitFor()
    const seen = await person.page.evaluate(() => { // at once: the message is drawn anew when it is stored
      const root = document.querySelector('petrel-chat')?.shadowRoot
      const { fontSize, letterSpacing, color, backgroundColor } = getComputedStyle(root?.querySelector('.bubble') as Element)
      return { fontSize, letterSpacing, color, backgroundColor }
    })
    assert.deepEqual(seen, { fontSize: '16px', letterSpacing: 'normal', color: 'rgb(240, 244, 248)', backgroundColor: 'rgb(1, 2, 3)' })
    await person.page.locator('.chat-title').click()
    const [info, whole] = await Promise.all(['.info', 'petrel-chat'].map((s) => person.page.locator(s).boundingBox()))
    assert.equal(info?.width, whole?.width) // as on a phone, in a window of 1000 px
    await person.page.locator('petrel-chat').evaluate((e) => { (e as HTMLElement).style.width = '800px' })
    const [beside, wide] = await Promise.all(['.info', 'petrel-chat'].map((s) => person.page.locator(s).boundingBox()))
    assert.deepEqual([beside?.width, (beside?.x ?? 0) + 424, beside?.height], [424, (wide?.x ?? 0) + 800, wide?.height]) // over the chat, and not beyond the element
    await person.context.close()
  })

  const hostile = `html { font-size: 40% } * { padding: 9px; border: 0; background: yellow; color: red; font: italic 10px/3 "Times New Roman"; text-transform: uppercase; letter-spacing: 3px; box-sizing: content-box; overflow: visible; text-align: right }`
  const looks = [
    { name: 'bare', css: '', frame: { width: 384, height: 576, border: 1, radius: 12 } },
    { name: 'hostile', css: hostile, frame: { width: 402, height: 594, border: 0, radius: 12 } }, // with the padding that the page gives it
    { name: 'own', css: 'petrel-chat { width: 500px; height: 300px; border: 3px solid; border-radius: 0 }', frame: { width: 500, height: 300, border: 3, radius: 0 } },
  ]
  for (const { name, css, frame } of looks) {
    test(`an element has its own size, edge and font, unless the page gives it others: in a page with ${css === '' ? 'no styles' : name === 'own' ? 'styles for it' : 'styles for everything'}`, async () => {
      const person = await Person.open(browser, page(`look-${name}`, element('gina', 'peer="erin"'), withStyles(css)))
      const p = person.page
      await person.field.waitFor()
      const seen = (): Promise<object> => p.evaluate(() => {
        const chat = document.querySelector('petrel-chat') as HTMLElement
        const inner = chat.shadowRoot?.querySelector('.petrel') as HTMLElement
        const { width, height } = chat.getBoundingClientRect()
        const { borderTopWidth, borderTopLeftRadius, boxShadow } = getComputedStyle(chat)
        const { fontFamily, fontSize, fontStyle, textAlign, textTransform, backgroundColor } = getComputedStyle(inner)
        return {
          frame: { width, height, border: parseFloat(borderTopWidth), radius: parseFloat(borderTopLeftRadius) }, shadow: boxShadow !== 'none', filled: inner.clientWidth === chat.clientWidth && inner.clientHeight === chat.clientHeight,
          font: fontFamily.split(',')[0], fontSize, fontStyle, textAlign, textTransform, backgroundColor, wide: document.documentElement.scrollWidth > innerWidth,
        }
      })
      const same = { shadow: true, filled: true, font: 'system-ui', fontSize: '16px', fontStyle: 'normal', textAlign: 'start', textTransform: 'none', backgroundColor: 'rgb(255, 255, 255)', wide: false }
      await p.setViewportSize({ width: 1440, height: 900 })
      assert.deepEqual(await seen(), { frame, ...same })
      if (name === 'bare') {
        await p.setViewportSize({ width: 360, height: 500 })
        assert.deepEqual(await seen(), { frame: { ...frame, width: 344, height: 500 }, ...same })
      }
      await person.context.close()
    })
  }

  test('texts stay readable, whatever colours the page gives', async () => {
    const person = await Person.open(browser, page('colours', element('gina', 'peer="erin"')))
    await person.field.waitFor()
    const low = await person.page.evaluate(({ pairs, least }) => {
      const chat = document.querySelector('petrel-chat') as HTMLElement
      const probe = chat.shadowRoot?.querySelector('.petrel')?.appendChild(document.createElement('i')) as HTMLElement
      probe.style.transitionProperty = 'none' // with reduced motion each change is a very short transition
      const paint = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true }) as OffscreenCanvasRenderingContext2D
      const luminance = (token: string): number => {
        probe.style.color = `var(--${token})`
        paint.fillStyle = getComputedStyle(probe).color
        paint.fillRect(0, 0, 1, 1)
        const [r = 0, g = 0, b = 0] = [...paint.getImageData(0, 0, 1, 1).data].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
      }
      const out: string[] = []
      const colours = ['', '#000', '#fff', '#808080', '#ff0', '#0f0', '#00f', 'light-dark(#0ff, #f0f)', ...Array.from({ length: 12 }, (_, i) => `oklch(${[0.3, 0.6, 0.9][i % 3]} 0.25 ${i * 30})`)]
      for (const theme of ['light', 'dark']) {
        ;(probe.parentElement as HTMLElement).dataset['theme'] = theme
        for (const accent of colours) for (const surface of accent === '' ? colours : ['', accent]) {
          chat.style.setProperty('--petrel-accent', accent)
          chat.style.setProperty('--petrel-surface', surface)
          for (const [ink, paper] of pairs) {
            const [a, b] = [luminance(ink), luminance(paper)]
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
            if (!(contrast >= least)) out.push(`${theme}, accent ${accent}, surface ${surface}: ${ink} on ${paper}: ${contrast.toFixed(2)}`)
          }
        }
      }
      return out
    }, { pairs: readable, least: 4.5 })
    assert.deepEqual(low, [])
    await person.context.close()
  })
})
