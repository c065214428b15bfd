// What axe finds on all views, in both themes.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import axe from 'axe-core'
import { Person } from './browser.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('axe finds nothing serious', { timeout: 120_000 }, () => {
  const shared = Shared.use()
  let server: Server
  let link = ''
  let group = ''

  before(async () => {
    server = await Server.start()
    const demo = JSON.parse(await server.petrel('demo', '--json')) as { links: { user: string; url: string }[]; convs: { conv: string }[] }
    link = demo.links.find((l) => l.user === 'alice')?.url ?? ''
    group = demo.convs[0]?.conv ?? ''
  })
  after(() => server.stop())

  /** Dark looks differ by their colours alone. */
  async function findings(p: Person, rules: readonly string[]): Promise<string[]> {
    const { violations } = await p.page.evaluate((runOnly) => (globalThis as unknown as { axe: typeof axe }).axe.run(document, { runOnly, resultTypes: ['violations'] }), [...rules])
    return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 200)} ${n.any[0]?.message ?? ''}`))
  }

  const all = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']
  for (const [colorScheme, rules, viewport] of [['light', all, { width: 1300, height: 800 }], ['dark', ['color-contrast'], { width: 390, height: 780 }]] as const) {
    test(`${colorScheme}, ${viewport.width} px`, async () => {
      const person = await (await Person.open(shared.browser, link, { colorScheme, viewport, reducedMotion: 'reduce' })).ready()
      const { page } = person
      await page.evaluate(axe.source)
      await page.locator('.chat-row').nth(4).waitFor()
      const found: string[] = []
      const look = async (view: string): Promise<void> => {
        await page.waitForFunction(() => document.getAnimations().every((a) => a.playState !== 'running')) // colours have arrived
        found.push(...(await findings(person, rules)).map((f) => `${view}: ${f}`))
      }
      /** Opens a part of a view, looks at it and closes it. */
      const open = async (view: string, how: () => Promise<void>, shown: string): Promise<void> => {
        await how()
        await page.locator(shown).last().waitFor()
        await look(view)
        await page.keyboard.press('Escape')
        await page.locator(shown).waitFor({ state: 'detached' })
      }
      const item = async (name: string): Promise<void> => page.getByRole('menuitem', { name, exact: true }).click()
      await look('list')
      await page.getByRole('searchbox').fill('bo')
      await look('search')
      await page.getByRole('searchbox').fill('')
      await open('menu', () => person.press('Menu'), '.menu')
      await open('keys', async () => {
        await person.press('Menu')
        await item('Keyboard')
      }, 'dialog')
      await open('new group', async () => {
        await person.press('Menu')
        await item('New group')
      }, 'dialog')
      await person.go('u/bob')
      await page.locator('.message').first().waitFor()
      await look('direct')
      await person.field.fill('@')
      await person.field.fill('smile :sm')
      await look('completion')
      await person.field.fill('')
      await open('message menu', () => page.locator('.message .bubble').last().click({ button: 'right' }), '.menu')
      await open('forward', async () => {
        await page.locator('.message .bubble').last().click({ button: 'right' })
        await item('Forward')
      }, 'dialog')
      await open('emoji', () => person.press('Emoji'), '.emoji-picker')
      await person.go(`c/${group}`)
      await page.locator('.message').first().waitFor()
      await look('group')
      await open('pins', async () => {
        await page.locator('.chat-header').getByRole('button', { name: 'More' }).click()
        await item('Pinned messages')
      }, 'dialog')
      await person.go(`c/${group}/info`)
      await page.getByRole('complementary').locator('.row').nth(3).waitFor()
      await look('info')
      await open('add members', () => person.press('Add members'), 'dialog')
      await person.go('settings')
      await look('settings')
      for (const name of ['Change the name', 'Change the password', 'Log out']) await open(name, () => person.press(name), 'dialog')
      await person.go('devices')
      await look('devices')
      await page.evaluate(() => {
        location.hash = '#/*'
      })
      await page.getByLabel('Password').waitFor()
      await look('log in')
      await person.press('Make a new account')
      await look('sign up')
      assert.deepEqual(found, [])
      await person.context.close()
    })
  }
})
