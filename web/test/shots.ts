// Makes pictures of all views: light and dark, phone, tablet and desktop, English and Chinese.
// `npm run shots -- FOLDER [part of a name]`
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { launch, Person } from './browser.js'
import { Server } from './server.js'

const [folder = 'shots', only = ''] = process.argv.slice(2)
const sizes = { phone: { width: 390, height: 780 }, tablet: { width: 768, height: 1024 }, desktop: { width: 1440, height: 900 } } as const

const server = await Server.start()
const demo = JSON.parse(await server.petrel('demo', '--json')) as { links: { user: string; url: string }[]; convs: { conv: string; title?: string }[] }
const group = demo.convs[0]?.conv ?? ''
const link = demo.links.find((l) => l.user === 'alice')?.url ?? ''

const history = await server.sendAs('bob', { conv: group, text: 'Look at `petrel bench`:\n```\naccepted   9800/s\ndelivered 41200/s\n```\nand https://example.org/boats **now** @alice 🎉', rel: { mentions: ['alice'] } })
await server.sendAs('carol', { conv: group, text: '收到，明天见！', rel: { replyTo: String(history.seq) } })
await server.sendAs('bob', { conv: group, text: '👍' })


const views: Readonly<Record<string, (p: Page) => Promise<void>>> = {
  list: async (p) => { await p.goto(`${server.url}/#/alice`) },
  direct: async (p) => { await p.goto(`${server.url}/#/alice/u/bob`) },
  group: async (p) => { await p.goto(`${server.url}/#/alice/c/${group}`) },
  info: async (p) => { await p.goto(`${server.url}/#/alice/c/${group}/info`) },
  menu: async (p) => {
    await p.goto(`${server.url}/#/alice/u/bob`)
    await p.locator('.message .bubble').last().click({ button: 'right' })
  },
  emoji: async (p) => {
    await p.goto(`${server.url}/#/alice/u/carol`)
    await p.getByRole('button', { name: /^(Emoji|表情)$/ }).click()
    await p.locator('.emoji').first().waitFor()
  },
  newgroup: async (p) => {
    await p.goto(`${server.url}/#/alice`)
    await p.getByRole('button', { name: /^(Menu|菜单)$/ }).click()
    await p.getByRole('menuitem', { name: /New group|新建群聊/ }).click()
  },
  settings: async (p) => { await p.goto(`${server.url}/#/alice/settings`) },
  devices: async (p) => { await p.goto(`${server.url}/#/alice/devices`) },
  signin: async (p) => { await p.goto(`${server.url}/#/*`) },
}

mkdirSync(folder, { recursive: true })
const browser = await launch()
for (const [size, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const locale of ['en-US', 'zh-CN']) {
      const names = Object.keys(views).map((view) => ({ view, file: `${view}-${size}-${colorScheme}-${locale.slice(0, 2)}.png` })).filter(({ file }) => file.includes(only))
      if (names.length === 0) continue
      const person = await (await Person.open(browser, link, { viewport, colorScheme, locale, deviceScaleFactor: size === 'phone' ? 2 : 1, reducedMotion: 'reduce' })).ready()
      await person.page.locator('.chat-row').nth(4).waitFor()
      for (const { view, file } of names) {
        await person.page.goto('about:blank')
        await views[view]?.(person.page)
        await person.page.waitForTimeout(400)
        await person.page.screenshot({ path: path.join(folder, file) })
      }
      await person.context.close()
    }
  }
}
await browser.close()
await server.stop()
