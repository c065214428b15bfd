// Makes pictures of all views: light and dark, phone, tablet and desktop, English and Chinese; and
// a sheet of each view. `npm run shots -- FOLDER [parts of names …]`; `make shots` makes all.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { createServer } from 'vite'
import { Person } from './browser.js'
import { Server } from './server.js'
import { Shop } from './shop.js'
import { en } from '../src/i18n/en.js'
import { zh } from '../src/i18n/zh.js'
import { insecureHost, registerOlga, settleMs, viewsOf } from './views.js'
import { makeWorld } from './world.js'

const [folder = 'shots', ...only] = process.argv.slice(2)
/** Three sizes; and who sees little room, large letters, or colours of the system. */
const sizes = { phone: { width: 390, height: 844 }, tablet: { width: 768, height: 1024 }, desktop: { width: 1440, height: 900 } } as const
const special = { narrow: { width: 320, height: 640 }, large: { width: 720, height: 450 }, forced: { width: 1000, height: 700 } } as const
const atOnce = 3 // contexts that are open

const shop = await Shop.open()
const server = await Server.start({ PETREL_LISTEN__HOSTS: insecureHost, PETREL_LISTEN__ORIGINS: shop.origin })
const world = await makeWorld(server)

const isWanted = (name: string): boolean => only.length === 0 || only.some((part) => name.includes(part))
mkdirSync(folder, { recursive: true })
const start = (...more: readonly string[]): Promise<Browser> => chromium.launch({ executablePath: process.env['PETREL_CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', `--host-resolver-rules=MAP ${insecureHost} 127.0.0.1`, ...more] })
const browser = await start()
const withLargeLetters = await start('--blink-settings=defaultFontSize=32') // 200 % in the settings of the browser
const bob = await (await Person.open(browser, world.link('bob'))).ready()
await bob.page.goto(`${server.url}/#/bob/u/alice`)
await bob.field.waitFor()
const views = viewsOf(server, world, bob, shop)

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
  await registerOlga(server.url, olga)
  await p.goto(world.link('alice'))
  await p.locator('.chat-row').nth(9).waitFor()
  for (const { view, file } of names) {
    try {
      await views[view]?.({ p, url: server.url, wire, context, to, olga, t: (key) => String((locale === 'zh-CN' ? zh : en)[key]) })
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
shop.close()
console.log(`${shot.length} pictures of ${sheets.length} views in ${folder}`)
process.exit(failures.length > 0 ? 1 : 0)
