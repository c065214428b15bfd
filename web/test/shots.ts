// Makes pictures of all views: light and dark, phone, tablet and desktop, English and Chinese; and
// a sheet of each view. `npm run shots -- FOLDER [parts of names …]`; `make shots` makes all.
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { createServer } from 'vite'
import { launch } from './browser.js'
import { locales, makeSheets, nameOf, sizes, themes, useFonts } from './pictures.js'
import { Stage } from './stage.js'
import { settleMs } from './views.js'

const [folder = 'shots', ...only] = process.argv.slice(2)
/** Views with little room, large letters, or the colours of the system. */
const special = { narrow: { width: 320, height: 640 }, large: { width: 720, height: 450 }, forced: { width: 1000, height: 700 } } as const
const atOnce = 3 // contexts that are open
const slowestMs = 60_000 // a picture, on a machine that does much else

const isWanted = (name: string): boolean => only.length === 0 || only.some((part) => name.includes(part))
mkdirSync(folder, { recursive: true })
useFonts()
const browser = await launch()
const withLargeLetters = await launch('--blink-settings=defaultFontSize=32') // 200 % in the settings of the browser
const stage = await Stage.open(browser)
const { views } = stage

interface Combination {
  readonly size: string
  readonly viewport: { readonly width: number; readonly height: number }
  readonly colorScheme: 'light' | 'dark'
  readonly locale: string
}

const combinations: readonly Combination[] = [
  ...Object.entries(sizes).flatMap(([size, viewport]) => themes.flatMap((colorScheme) => locales.map((locale) => ({ size, viewport, colorScheme, locale })))),
  ...Object.entries(special).map(([size, viewport]) => ({ size, viewport, colorScheme: 'light' as const, locale: 'en-US' })),
]
const failures: string[] = []

async function shoot({ size, viewport, colorScheme, locale }: Combination): Promise<void> {
  const names = Object.keys(views).map((view) => ({ view, file: nameOf(view, size, colorScheme, locale) })).filter(({ file }) => isWanted(file))
  if (names.length === 0) return
  const context = await (size === 'large' ? withLargeLetters : browser).newContext({ viewport, colorScheme, locale, timezoneId: 'Europe/Berlin', ...(size === 'phone' ? { deviceScaleFactor: 2, isMobile: true, hasTouch: true } : {}), reducedMotion: 'reduce', forcedColors: size === 'forced' ? 'active' : 'none', permissions: ['clipboard-write'] })
  const shown = await stage.enter(context, `${size}-${colorScheme}-${locale.slice(0, 2)}`, locale === 'zh-CN' ? 'zh' : 'en')
  const { p } = shown
  for (const { view, file } of names) {
    try {
      await views[view]?.(shown)
    } catch (why) {
      failures.push(`${file}: ${String(why).split('\n').slice(0, 4).join(' ')}`)
      console.log(`failed: ${failures.at(-1)}`)
    }
    await p.waitForTimeout(settleMs)
    await p.screenshot({ path: path.join(folder, `${file}.png`), timeout: slowestMs })
  }
  await context.close()
}

const waiting = [...combinations]
await Promise.all(Array.from({ length: atOnce }, async () => {
  for (let next = waiting.shift(); next; next = waiting.shift()) await shoot(next)
}))
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

const made = await makeSheets(browser, folder, Object.keys(views), Object.keys(special))
await Promise.all([browser.close(), withLargeLetters.close()])
await stage.close()
console.log(`${made.pictures} pictures of ${made.sheets} views in ${folder}`)
process.exit(failures.length > 0 ? 1 : 0)
