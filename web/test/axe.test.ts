// What axe finds on the views, in both themes.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { launch, Person } from './browser.js'
import { Server } from './server.js'

describe('axe finds nothing serious', { timeout: 120_000 }, () => {
  let server: Server
  let browser: Browser
  let link = ''
  let group = ''

  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()])
    const demo = JSON.parse(await server.petrel('demo', '--json')) as { links: { user: string; url: string }[]; convs: { conv: string }[] }
    link = demo.links.find((l) => l.user === 'alice')?.url ?? ''
    group = demo.convs[0]?.conv ?? ''
  })
  after(async () => {
    await browser.close()
    await server.stop()
  })

  async function findings(p: Page): Promise<string[]> {
    await p.evaluate(axe.source)
    const { violations } = await p.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }))
    return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 200)} ${n.any[0]?.message ?? ''}`))
  }

  for (const colorScheme of ['light', 'dark'] as const) {
    test(colorScheme, async () => {
      const person = await (await Person.open(browser, link, { colorScheme, reducedMotion: 'reduce' })).ready()
      const p = person.page
      await p.locator('.chat-row').nth(4).waitFor()
      const found: string[] = []
      for (const [view, address] of Object.entries({ direct: '#/alice/u/bob', info: `#/alice/c/${group}/info`, settings: '#/alice/settings', devices: '#/alice/devices', signin: '#/*' })) {
        await p.goto(`${server.url}/${address}`)
        await p.waitForTimeout(300)
        found.push(...(await findings(p)).map((f) => `${view}: ${f}`))
      }
      await p.goto(`${server.url}/#/alice/u/bob`)
      await p.locator('.message .bubble').last().click({ button: 'right' })
      found.push(...(await findings(p)).map((f) => `menu: ${f}`))
      assert.deepEqual(found, [])
      await person.context.close()
    })
  }
})
