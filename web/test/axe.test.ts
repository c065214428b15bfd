// The findings of axe on all views, and the parts of them that do not fit into a narrow page.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import axe from 'axe-core'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { profile, suiteMs } from './browser.js'
import { Shared } from './shared.js'
import { Stage } from './stage.js'
import { drawAnew } from './views.js'

/** All rules where all is seen; dark looks differ by their colours alone. */
const looks: readonly { readonly name: string; readonly language: 'en' | 'zh'; readonly rules: readonly string[]; readonly options: BrowserContextOptions }[] = [
  { name: 'light', language: 'en', rules: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'], options: { colorScheme: 'light', viewport: { width: 1300, height: 800 } } },
  { name: 'dark', language: 'zh', rules: ['color-contrast'], options: { colorScheme: 'dark', viewport: { width: 320, height: 640 }, locale: 'zh-CN' } },
]

describe('axe finds nothing serious', { timeout: suiteMs, concurrency: true }, () => {
  const shared = Shared.use()
  let stage: Stage

  before(async () => {
    stage = await Stage.open(shared.browser)
  })
  after(() => stage.close())

  for (const { name, language, rules, options } of looks) {
    test(`on all views, ${name}, ${options.viewport?.width} px`, async () => {
      const context = await profile(shared.browser, { permissions: ['clipboard-write'], ...options })
      const shown = await stage.enter(context, name, language, drawAnew)
      const found: string[] = []
      for (const [view, show] of Object.entries(stage.views)) {
        if (view.startsWith('element')) continue // test/embed.test.ts looks at them
        await show(shown)
        await shown.p.waitForFunction(() => document.getAnimations().every((a) => a.playState !== 'running')) // colours have arrived
        found.push(...[...await findings(shown.p, rules), ...await cutOff(shown.p), ...await sideways(shown.p)].map((f) => `${view}: ${f}`))
      }
      assert.deepEqual(found, [])
      await context.close()
    })
  }
})

async function findings(p: Page, rules: readonly string[]): Promise<string[]> {
  if (!await p.evaluate(() => 'axe' in globalThis)) await p.evaluate(axe.source) // once for each load
  const violations = await p.evaluate(async (runOnly) => (await (globalThis as unknown as { axe: typeof axe }).axe.run(document, { runOnly, resultTypes: ['violations'], selectors: false })).violations, [...rules])
  return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 200)} ${n.any[0]?.message ?? ''}`))
}

/** The elements that scroll sideways, or would: the document and each box that scrolls, except for code. */
function sideways(p: Page): Promise<string[]> {
  return p.evaluate(() => [...document.querySelectorAll<HTMLElement>('html, body *:not(pre, pre *)')].filter((e) => {
    const isScrolled = e === document.documentElement || ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
    return isScrolled && e.scrollWidth > e.clientWidth + 1 && !e.matches('.unseen')
  }).map((e) => `scrolls sideways: ${e.outerHTML.slice(0, 200)}`))
}

/** The buttons, fields and titles that are not within the width of the page. */
function cutOff(p: Page): Promise<string[]> {
  return p.evaluate(() => [...document.querySelectorAll<HTMLElement>('button, input, textarea, h1, h2, h3, .bubble')].filter((e) => {
    const { left, right, width } = e.getBoundingClientRect()
    return width > 0 && (left < -1 || right > innerWidth + 1)
  }).map((e) => `out of the page: ${e.outerHTML.slice(0, 200)}`))
}
