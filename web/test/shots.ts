// Makes pictures of all views: light and dark, phone, tablet and desktop, English and Chinese; and
// a sheet of each view. `npm run shots -- FOLDER [parts of names …]`; `make shots` makes all.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import { createServer } from 'vite'
import { Person } from './browser.js'
import { Server } from './server.js'
import { en } from '../src/i18n/en.js'
import { zh } from '../src/i18n/zh.js'
import { makeWorld, type Wire } from './world.js'

const [folder = 'shots', ...only] = process.argv.slice(2)
/** Three sizes; and who sees little room, large letters, or colours of the system. */
const sizes = { phone: { width: 390, height: 844 }, tablet: { width: 768, height: 1024 }, desktop: { width: 1440, height: 900 } } as const
const special = { narrow: { width: 320, height: 640 }, large: { width: 720, height: 450 }, forced: { width: 1000, height: 700 } } as const
const atOnce = 3 // contexts that are open
const settleMs = 250 // what a view needs after its last step
const insecureHost = 'insecure.example' // is this host, but no browser knows it

interface Shown {
  readonly p: Page
  readonly wire: Wire
  readonly t: (key: keyof typeof en) => string // the text that the page shows
  readonly context: BrowserContext
  readonly to: (address: string) => Promise<void>
  readonly olga: string // a user who is in this context only
}

type View = (s: Shown) => Promise<unknown>

const server = await Server.start({ PETREL_LISTEN__HOSTS: insecureHost })
const world = await makeWorld(server)
const olgaPassword = 'olga has a long one'

/** Somebody new, who knows nobody and has logged in with a phone. */
async function registerOlga(user: string): Promise<void> {
  const answer = await fetch(`${server.url}/petrel.v1.AuthService/Register`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ user, password: olgaPassword, displayName: 'Olga Petrova', device: { id: 'phone', kind: 'phone', name: 'Pixel 11, Android' } }),
  })
  if (!answer.ok) throw new Error(await answer.text())
}

const button = (p: Page, name: string): Locator => p.getByRole('button', { name, exact: true }).first()
const field = (p: Page): Locator => p.getByRole('textbox', { name: /^(Message|消息)$/ })
const bubble = (p: Page, text: string): Locator => p.locator('.message .bubble', { has: p.locator('.body', { hasText: text }) }).last()

async function messageMenu(p: Page, text: string, item?: string): Promise<void> {
  await bubble(p, text).click({ button: 'right', position: { x: 20, y: 10 } })
  if (item) await p.getByRole('menuitem', { name: item, exact: true }).click()
}

async function logIn(p: Page, t: Shown['t'], user: string): Promise<void> {
  await p.getByLabel(t('handle'), { exact: true }).fill(user)
  await p.getByLabel(t('password'), { exact: true }).fill(olgaPassword)
  await button(p, t('signIn')).click()
  await p.getByRole('navigation').waitFor({ state: 'attached' })
}

async function asOlga({ p, t, olga }: Shown, address: string): Promise<void> {
  await p.goto('about:blank')
  await p.goto(`${server.url}/#/${olga}`)
  await p.locator('.signin-card, .sidebar').first().waitFor({ state: 'attached' })
  if (await p.locator('.signin-card').count() > 0) await logIn(p, t, olga)
  await p.goto(`${server.url}/#/${olga}/${address}`)
}

const mixed = `alice/c/${world.mixed}`
const views: Readonly<Record<string, View>> = {
  'signin': ({ to }) => to('*'),
  'signin-wrong': async ({ p, to, t }) => {
    await to('*')
    await p.getByLabel(t('handle'), { exact: true }).fill('alice')
    await p.getByLabel(t('password'), { exact: true }).fill('not the password')
    await button(p, t('signIn')).click()
    await p.getByRole('alert').waitFor()
  },
  'signup': async ({ p, to }) => {
    await to('*')
    await p.locator('.signin-card .button').last().click()
  },
  'list': ({ to }) => to('alice'),
  'list-bottom': async ({ p, to }) => {
    await to('alice')
    await p.locator('.chat-row').last().scrollIntoViewIfNeeded()
  },
  'list-menu': async ({ p, to }) => {
    await to('alice')
    await p.locator('.chat-row').nth(2).click({ button: 'right', position: { x: 160, y: 30 } })
  },
  'menu': async ({ p, to, t }) => {
    await to('alice')
    await button(p, t('menu')).click()
  },
  'search': async ({ p, to }) => {
    await to('alice')
    await p.getByRole('searchbox').fill('o')
    await p.locator('.chat-row').first().hover()
  },
  'search-person': async ({ p, to, olga }) => {
    await to('alice')
    await p.getByRole('searchbox').fill(`@${olga}`)
    await p.locator('.people-row').waitFor()
  },
  'search-nothing': async ({ p, to }) => {
    await to('alice')
    await p.getByRole('searchbox').fill('nobody-is-called-so')
    await p.waitForTimeout(600)
  },
  'archive': async ({ p, to }) => {
    await to('alice')
    await p.locator('.archive-row').click()
  },
  'keys': async ({ p, to }) => {
    await to('alice')
    await p.locator('.chat-row').first().waitFor()
    await p.keyboard.press('?')
  },
  'new-group': async ({ p, to, t }) => {
    await to('alice')
    await button(p, t('menu')).click()
    await p.getByRole('menuitem', { name: t('newGroup'), exact: true }).click()
    const fields = p.getByRole('dialog').getByRole('textbox')
    await fields.first().fill('Sailing 帆船')
    for (const name of ['Bob', 'Erin']) await p.locator('dialog .row', { hasText: name }).click()
  },
  'direct': ({ to }) => to('alice/u/bob'),
  'direct-chinese': ({ to }) => to('alice/u/carol'),
  'direct-arabic': ({ to }) => to('alice/u/farid'),
  'direct-long-name': ({ to }) => to('alice/u/erin'),
  'direct-long-word': ({ to }) => to('alice/u/a.user.name.that.is.as.long.as.one.may.be-0123456789-01234567890'),
  'direct-draft': ({ to }) => to('alice/u/noa'),
  'direct-first': ({ to }) => to('alice/u/wang'),
  'notes': ({ to }) => to('alice/u/alice'),
  'group': ({ to }) => to(`alice/c/${world.boat}`),
  'mixed': ({ to }) => to(mixed),
  'mixed-unread': async ({ p, to }) => {
    await to(mixed)
    await p.locator('.unread-line').waitFor()
    await p.locator('.timeline-view').evaluate((v) => v.scrollTo(0, v.scrollHeight))
  },
  'mixed-middle': async ({ p, to }) => {
    await to(mixed)
    await bubble(p, 'A_word_that').evaluate((b) => b.scrollIntoView({ block: 'end' }))
  },
  'mixed-top': async ({ p, to }) => {
    await to(mixed)
    await p.locator('.timeline-view').evaluate((v) => v.scrollTo(0, 0))
  },
  'unread': ({ to }) => to(`alice/c/${world.crowd}`),
  'former': ({ to }) => to(`alice/c/${world.former}`),
  'typing': async ({ p, to }) => {
    await to('alice/u/bob')
    const typing = p.locator('.chat-header .typing')
    for (let i = 0; i < 8 && await typing.count() === 0; i++) {
      await bob.field.pressSequentially('Well ')
      await p.waitForTimeout(500)
    }
    await typing.waitFor()
  },
  'message-menu': async ({ p, to }) => {
    await to(mixed)
    await messageMenu(p, '收到，明天见')
  },
  'message-menu-own': async ({ p, to }) => {
    await to(mixed)
    await messageMenu(p, 'The last thing')
  },
  'message-hover': async ({ p, to }) => {
    await to(mixed)
    await bubble(p, '收到，明天见').hover()
  },
  'reply': async ({ p, to, t }) => {
    await to(mixed)
    await messageMenu(p, '收到，明天见', t('reply'))
  },
  'edit': async ({ p, to, t }) => {
    await to(mixed)
    await messageMenu(p, 'The last thing', t('edit'))
  },
  'composer-long': async ({ p, to }) => {
    await to('alice/u/bob')
    await field(p).fill(Array.from({ length: 30 }, (_, i) => `Line ${i + 1} of a text that somebody has pasted`).join('\n'))
  },
  'mention': async ({ p, to }) => {
    await to(mixed)
    await field(p).pressSequentially('@')
    await p.locator('.completion').waitFor()
  },
  'emoji-completion': async ({ p, to }) => {
    await to('alice/u/carol')
    await field(p).pressSequentially(':he')
    await p.locator('.completion').waitFor().catch(() => {}) // in Chinese nothing is called so
  },
  'emoji': async ({ p, to, t }) => {
    await to('alice/u/carol')
    await button(p, t('emoji')).click()
    await p.locator('.emoji').first().waitFor()
  },
  'forward': async ({ p, to, t }) => {
    await to(mixed)
    await messageMenu(p, '收到，明天见', t('forward'))
  },
  'who-read': async ({ p, to, t }) => {
    await to(mixed)
    await messageMenu(p, 'The last thing', t('whoRead'))
    await p.locator('dialog .row').first().waitFor()
  },
  'who-reacted': async ({ p, to, t }) => {
    await to(mixed)
    await bubble(p, 'Decision: we ship').evaluate((b) => b.scrollIntoView({ block: 'center' }))
    await p.waitForTimeout(settleMs)
    await messageMenu(p, 'Decision: we ship', t('whoReacted'))
    await p.locator('dialog .row').first().waitFor()
  },
  'pins': async ({ p, to, t }) => {
    await to(mixed)
    await p.locator('.chat-header .icon-button').last().click()
    await p.getByRole('menuitem', { name: t('pinnedMessages') }).click()
    await p.locator('dialog .row').first().waitFor()
  },
  'chat-menu': async ({ p, to }) => {
    await to(mixed)
    await p.locator('.chat-header .icon-button').last().click()
  },
  'info-user': ({ to }) => to('alice/u/bob/info'),
  'info-group': ({ to }) => to(`${mixed}/info`),
  'info-crowd': ({ to }) => to(`alice/c/${world.crowd}/info`),
  'member-menu': async ({ p, to }) => {
    await to(`${mixed}/info`)
    await p.locator('.info .row', { hasText: 'Bob' }).click()
  },
  'add-members': async ({ p, to, t }) => {
    await to(`${mixed}/info`)
    await button(p, t('addMembers')).click()
  },
  'rename': async ({ p, to }) => {
    await to(`${mixed}/info`)
    await p.locator('.info-header .icon-button').last().click()
  },
  'question': async ({ p, to }) => {
    await to(`${mixed}/info`)
    await p.locator('.info .row-danger').last().click()
  },
  'settings': ({ to }) => to('alice/settings'),
  'settings-bottom': async ({ p, to }) => {
    await to('alice/settings')
    await p.locator('.settings-version').scrollIntoViewIfNeeded()
  },
  'name': async ({ p, to, t }) => {
    await to('alice/settings')
    await p.locator('.settings .row', { hasText: t('changeName') }).click()
  },
  'password': async ({ p, to, t }) => {
    await to('alice/settings')
    await p.locator('.settings .row', { hasText: t('changePassword') }).click()
  },
  'logout': async ({ p, to }) => {
    await to('alice/settings')
    await p.locator('.settings .row-danger').click()
  },
  'loading': async (s) => { // the first time, when nothing has come from the server yet
    s.wire.cut()
    await asOlga(s, 'u/wang')
    s.wire.mend()
  },
  'empty': (s) => asOlga(s, ''),
  'accounts': async (s) => {
    await asOlga(s, '')
    await button(s.p, s.t('menu')).click()
  },
  'devices': async (s) => {
    await asOlga(s, 'devices')
    await s.p.locator('.settings .row').nth(1).waitFor()
  },
  'reconnecting': async (s) => {
    s.wire.cut()
    await asOlga(s, 'u/wang')
    await s.p.locator('.connection:visible, .chat-subtitle[role="status"]:visible').waitFor({ timeout: 8000 })
    await field(s.p).fill('Written while there is no connection')
    await field(s.p).press('Enter')
    await bubble(s.p, 'Written while').waitFor()
  },
  'offline': async ({ p, to, wire, context }) => {
    wire.cut()
    await to('alice/u/carol')
    await context.setOffline(true)
    await p.locator('.connection:visible, .chat-subtitle[role="status"]:visible').waitFor({ timeout: 8000 })
  },
  'online-again': async (s) => {
    await s.context.setOffline(false)
    s.wire.mend()
    await asOlga(s, 'u/wang')
    await bubble(s.p, 'Written while').getByRole('img', { name: s.t('fateStored') }).waitFor({ timeout: 8000 })
  },
  'failed': async ({ p, to }) => {
    await to('alice/u/nobody')
    await field(p).fill('Is anybody there? I am looking for the owner of the blue boat at gate B.')
    await field(p).press('Enter')
    await p.locator('.failure').waitFor()
  },
  'failed-list': async ({ p, to }) => {
    await to('alice/u/nobody')
    await p.locator('.failure').waitFor()
    await p.locator('.failure-tools .button').first().hover()
  },
  'toast': async ({ p, to, t }) => {
    await to(mixed)
    await messageMenu(p, '收到，明天见', t('copy'))
    await p.locator('.toast').waitFor()
  },
  'update': async ({ p, to }) => {
    await to('alice/u/bob')
    await p.waitForFunction(() => navigator.serviceWorker.controller !== null)
    await p.reload()
    await p.locator('.message').first().waitFor()
    await p.evaluate(() => navigator.serviceWorker.dispatchEvent(new Event('controllerchange')))
  },
  'insecure': async ({ p, t, olga }) => {
    await p.goto(`${server.url.replace('127.0.0.1', insecureHost)}/#/*`)
    await logIn(p, t, olga)
    await p.locator('.connection').waitFor()
  },
  'ended': async (s) => {
    await asOlga(s, '')
    await server.admin('AdminService/SetPassword', { user: s.olga, password: olgaPassword })
    await s.p.locator('.signin-card').waitFor()
  },
  'storage': async ({ p }) => { // last: the page stays without a store
    await p.addInitScript(() => {
      IDBFactory.prototype.open = () => {
        throw new DOMException('The user denied permission to access the database.', 'SecurityError')
      }
    })
    await p.goto('about:blank')
    await p.goto(`${server.url}/#/alice/u/bob`)
    await p.waitForTimeout(1000)
  },
}

const isWanted = (name: string): boolean => only.length === 0 || only.some((part) => name.includes(part))
mkdirSync(folder, { recursive: true })
const start = (...more: readonly string[]): Promise<Browser> => chromium.launch({ executablePath: process.env['PETREL_CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', `--host-resolver-rules=MAP ${insecureHost} 127.0.0.1`, ...more] })
const browser = await start()
const withLargeLetters = await start('--blink-settings=defaultFontSize=32') // 200 % in the settings of the browser
const bob = await (await Person.open(browser, world.link('bob'))).ready()
await bob.page.goto(`${server.url}/#/bob/u/alice`)
await bob.field.waitFor()

interface Combination {
  readonly size: string
  readonly viewport: { readonly width: number; readonly height: number }
  readonly colorScheme: 'light' | 'dark'
  readonly locale: string
}

const combinations: readonly Combination[] = [
  ...Object.entries(sizes).flatMap(([size, viewport]) => (['light', 'dark'] as const).flatMap((colorScheme) => ['en-US', 'zh-CN'].map((locale) => ({ size, viewport, colorScheme, locale })))),
  ...Object.entries(special).map(([size, viewport]) => ({ size, viewport, colorScheme: 'light' as const, locale: 'en-US' })),
]
const failures: string[] = []

async function shoot({ size, viewport, colorScheme, locale }: Combination): Promise<void> {
  const names = Object.keys(views).map((view) => ({ view, file: `${view}-${size}-${colorScheme}-${locale.slice(0, 2)}` })).filter(({ file }) => isWanted(file))
  if (names.length === 0) return
  const context = await (size === 'large' ? withLargeLetters : browser).newContext({ viewport, colorScheme, locale, timezoneId: 'Europe/Berlin', ...(size === 'phone' ? { deviceScaleFactor: 2, isMobile: true, hasTouch: true } : {}), reducedMotion: 'reduce', forcedColors: size === 'forced' ? 'active' : 'none', permissions: ['clipboard-write'] })
  const p = await context.newPage()
  p.setDefaultTimeout(4000)
  const wire = await world.prepare(p)
  const to = async (address: string): Promise<void> => {
    await p.goto('about:blank')
    await p.goto(`${server.url}/#/${address}`)
    await p.locator(':is(.message, .chat-row, .signin-card, .beginning, .settings, .info):visible').first().waitFor()
    await p.waitForTimeout(settleMs) // the timeline has found its place then
  }
  const olga = `olga-${size}-${colorScheme}-${locale.slice(0, 2)}`
  await registerOlga(olga)
  await p.goto(world.link('alice'))
  await p.locator('.chat-row').nth(9).waitFor()
  for (const { view, file } of names) {
    try {
      await views[view]?.({ p, wire, context, to, olga, t: (key) => String((locale === 'zh-CN' ? zh : en)[key]) })
    } catch (why) {
      failures.push(`${file}: ${String(why).split('\n').slice(0, 4).join(' ')}`)
      console.log(`failed: ${failures.at(-1)}`)
    }
    await p.waitForTimeout(settleMs)
    await p.screenshot({ path: path.join(folder, `${file}.png`) })
  }
  await context.close()
}

const waiting = [...combinations]
await Promise.all(Array.from({ length: atOnce }, async () => {
  for (let next = waiting.shift(); next; next = waiting.shift()) await shoot(next)
}))
await bob.context.close()
if (isWanted('gallery')) await shootGallery()

/** The page of all tokens and components: npm run gallery. */
async function shootGallery(): Promise<void> {
  const vite = await createServer({ configFile: 'vite.config.ts', server: { port: 0 }, logLevel: 'error' })
  await vite.listen()
  const p = await browser.newPage({ viewport: { width: 1440, height: 900 }, reducedMotion: 'reduce' })
  await p.goto(`${vite.resolvedUrls?.local[0] ?? ''}ui/gallery.html`)
  await p.locator('.gallery-icon').last().waitFor()
  await p.screenshot({ path: path.join(folder, 'gallery.png'), fullPage: true })
  await p.close()
  await vite.close()
}

// A sheet of each view: four phones, four tablets, four desktops.
const shot = readdirSync(folder).filter((f) => f.endsWith('.png') && !f.startsWith('sheet-'))
const sheet = await (await browser.newContext({ viewport: { width: 1840, height: 1000 } })).newPage()
const sheets: string[] = []
const rows: readonly (readonly [readonly string[], number])[] = [[['phone'], 250], [['tablet'], 440], [['desktop'], 900], [Object.keys(special), 440]] // and the width of a picture in px
const isOf = (f: string, view: string, size: string): boolean => f.startsWith(`${view}-${size}-`)
for (const view of Object.keys(views)) {
  const pictures = rows.map(([of, width]) => shot.filter((f) => of.some((size) => isOf(f, view, size))).sort().map((f) => `<img src="${f}" width="${width}">`).join(''))
  if (pictures.join('') === '') continue
  const html = `<!doctype html><meta charset="utf-8"><style>body{margin:12px;background:#888;font:16px sans-serif}div{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0;align-items:flex-start}</style><h3>${view}</h3>${pictures.map((row) => `<div>${row}</div>`).join('')}`
  writeFileSync(path.join(folder, `sheet-${view}.html`), html)
  await sheet.goto(`file://${path.resolve(folder)}/sheet-${view}.html`)
  await sheet.screenshot({ path: path.join(folder, `sheet-${view}.png`), fullPage: true })
  sheets.push(view)
}
writeFileSync(path.join(folder, 'index.html'), `<!doctype html><meta charset="utf-8"><title>Views</title>${sheets.map((view) => `<p><a href="sheet-${view}.html">${view}</a></p>`).join('')}`)
await Promise.all([browser.close(), withLargeLetters.close()])
await server.stop()
console.log(`${shot.length} pictures of ${sheets.length} views in ${folder}`)
process.exit(failures.length > 0 ? 1 : 0)
