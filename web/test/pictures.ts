// Pictures of pages: sizes, fonts, and a sheet of each view.
import { readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Browser } from 'playwright-core'

/** Three widths of pages, from a small phone to a desktop. */
export const sizes = { phone: { width: 360, height: 780 }, tablet: { width: 768, height: 1024 }, desktop: { width: 1440, height: 900 } } as const

export const themes = ['light', 'dark'] as const
export const locales = ['en-US', 'zh-CN'] as const

/** Has each browser that is started from here on draw text with the fonts of test/fonts.conf. */
export function useFonts(): void {
  process.env['FONTCONFIG_FILE'] = path.resolve('test/fonts.conf')
}

/** The name of a picture in the folder, without its ending. */
export const nameOf = (view: string, size: string, theme: string, locale: string): string => `${view}-${size}-${theme}-${locale.slice(0, 2)}`

/** Makes a sheet of each view from the pictures in a folder, and index.html with all of them. `more` are sizes of the last row. Returns how many pictures and sheets there are. */
export async function makeSheets(browser: Browser, folder: string, views: readonly string[], more: readonly string[] = []): Promise<{ readonly pictures: number; readonly sheets: number }> {
  const pictures = readdirSync(folder).filter((f) => f.endsWith('.png') && !f.startsWith('sheet-'))
  const page = await (await browser.newContext({ viewport: { width: 1840, height: 1000 } })).newPage()
  const sheets: string[] = []
  const rows: readonly (readonly [readonly string[], number])[] = [[['phone'], 250], [['tablet'], 440], [['desktop'], 900], [more, 440]] // and the width of a picture in px
  for (const view of views) {
    const drawn = rows.map(([of, width]) => pictures.filter((f) => of.some((size) => f.startsWith(`${view}-${size}-`))).sort().map((f) => `<img src="${f}" width="${width}">`).join(''))
    if (drawn.join('') === '') continue
    const html = `<!doctype html><meta charset="utf-8"><style>body{margin:12px;background:#888;font:16px sans-serif}div{display:flex;flex-wrap:wrap;gap:8px;margin:8px 0;align-items:flex-start}</style><h3>${view}</h3>${drawn.map((row) => `<div>${row}</div>`).join('')}`
    writeFileSync(path.join(folder, `sheet-${view}.html`), html)
    await page.goto(`file://${path.resolve(folder)}/sheet-${view}.html`)
    await page.screenshot({ path: path.join(folder, `sheet-${view}.png`), fullPage: true })
    sheets.push(view)
  }
  writeFileSync(path.join(folder, 'index.html'), `<!doctype html><meta charset="utf-8"><title>Views</title>${sheets.map((view) => `<p><a href="sheet-${view}.html">${view}</a></p>`).join('')}`)
  await page.context().close()
  return { pictures: pictures.length, sheets: sheets.length }
}
