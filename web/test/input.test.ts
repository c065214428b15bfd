// Input methods: what they do with Enter and Escape in all fields of the page.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CDPSession, Locator } from 'playwright-core'
import { Person } from './browser.js'
import { Shared } from './shared.js'

describe('input methods', { timeout: 120_000, concurrency: 3 }, () => {
  const shared = Shared.use()

  interface Typist {
    readonly p: Person
    readonly devtools: CDPSession
  }

  /**
   * Composes a word in a field, and has keys choose among the words of the input method, as
   * all browsers report them. Nothing happens but that the word is there.
   */
  async function compose({ p, devtools }: Typist, field: Locator, still: Locator, before = ''): Promise<void> {
    const where = p.page.url()
    const has = async (text: string): Promise<void> => void await p.page.waitForFunction(([f, t]) => (f as HTMLInputElement).value === t, [await field.elementHandle(), text] as const)
    await field.fill(before)
    await devtools.send('Input.imeSetComposition', { text: 'nihao', selectionStart: 5, selectionEnd: 5 })
    await has(`${before}nihao`)
    for (const key of ['Escape', 'Enter']) await devtools.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'Process', code: key, windowsVirtualKeyCode: 229 })
    await field.evaluate((f) => {
      for (const key of ['Escape', 'ArrowDown', 'ArrowUp', 'Backspace', 'Tab', 'Enter']) {
        for (const how of [{ keyCode: 13, isComposing: true }, { keyCode: 229, isComposing: false }]) f.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...how })) // the second as Safari reports the last key
      }
    })
    assert.equal(await field.inputValue(), `${before}nihao`)
    await devtools.send('Input.insertText', { text: '你好' })
    await has(`${before}你好`)
    assert.deepEqual([await field.evaluate((f) => f === document.activeElement), p.page.url()], [true, where])
    await still.waitFor()
  }

  test('in the composer, also with suggestions, a reply or an edit, nothing is sent or closed', async () => {
    const { conv, users } = await shared.group('Input', 'ida', 'jan')
    const [ida = '', jan = ''] = users
    await shared.server.sendAs(jan, { conv, text: 'to be answered' })
    const p = await shared.open(ida, { route: `c/${conv}` })
    const typist = { p, devtools: await p.context.newCDPSession(p.page) }
    await compose(typist, p.field, p.field)
    await p.field.press('Enter')
    await p.stored('你好')
    await compose(typist, p.field, p.page.locator('.composer'), 'hm @')
    await p.field.fill('')
    await p.choose('to be answered', 'Reply')
    await compose(typist, p.field, p.page.locator('.intent'))
    await p.field.press('Escape')
    await p.field.fill('')
    await p.field.press('ArrowUp')
    await compose(typist, p.field, p.page.locator('.intent', { hasText: 'Edit message' }))
    await p.field.press('Escape')
    await p.press('Emoji')
    const emoji = p.page.getByRole('dialog', { name: 'Emoji' })
    await compose(typist, emoji.getByRole('searchbox'), emoji)
    assert.deepEqual(await p.texts(), ['to be answered', '你好'])
    await p.context.close()
  })

  test('in the search and in every dialog nothing is chosen, sent or closed', async () => {
    const { conv, users: [kim = ''] } = await shared.group('Names', 'kim', 'leo')
    const p = await shared.open(kim, { route: `c/${conv}/info` })
    const typist = { p, devtools: await p.context.newCDPSession(p.page) }
    await shared.server.sendAs(kim, { conv, text: 'to be forwarded' })
    await compose(typist, p.page.getByRole('searchbox', { name: 'Search or @name' }), p.row('Names').or(p.page.getByText('Nothing found. To write')).first())
    await p.page.getByRole('searchbox', { name: 'Search or @name' }).fill('')

    const dialog = p.page.getByRole('dialog')
    const inDialog = async (open: () => Promise<void>, ...fields: readonly string[]): Promise<void> => {
      await open()
      for (const name of fields) await compose(typist, dialog.getByLabel(name, { exact: true }), dialog)
      await p.press('Close', 'dialog')
      await dialog.waitFor({ state: 'detached' })
    }
    await inDialog(() => p.choose('to be forwarded', 'Forward'), 'Search')
    const info = p.page.getByRole('complementary')
    await inDialog(() => info.getByRole('button', { name: 'Rename' }).click(), 'Name of the group')
    await inDialog(() => info.getByRole('button', { name: 'Add members' }).click(), 'Add by user name')
    await inDialog(async () => {
      await p.press('Menu')
      await p.page.getByRole('menuitem', { name: 'New group' }).click()
    }, 'Name of the group', 'Add by user name')
    await p.go('settings')
    await inDialog(() => p.press('Change the name'), 'Name')
    await inDialog(() => p.press('Change the password'), 'Current password', 'New password')
    assert.equal(await p.page.getByRole('heading', { name: '你好' }).count(), 0) // no name was changed
    await p.context.close()
  })

  test('where people sign up and log in nothing is sent, and devices keep their names', async () => {
    const p = await Person.open(shared.browser, shared.server.url)
    const typist = { p, devtools: await p.context.newCDPSession(p.page) }
    const asked: string[] = []
    p.page.on('request', (r) => asked.push(r.url()))
    const heading = p.page.getByRole('heading', { name: 'Petrel' })
    for (const name of ['User name', 'Password']) await compose(typist, p.page.getByLabel(name, { exact: true }), heading)
    await p.press('Make a new account')
    for (const name of ['User name', 'Name', 'Password']) await compose(typist, p.page.getByLabel(name, { exact: true }), heading)
    assert.deepEqual(asked.filter((url) => url.includes('AuthService')), [])
    await p.page.getByLabel('User name').fill(shared.name('mia'))
    await p.page.getByLabel('Password').fill('a long password')
    await p.press('Sign up')
    await p.ready()
    await p.go('devices')
    await p.page.locator('.settings .row').getByRole('button', { name: 'Rename' }).click()
    await compose(typist, p.page.getByLabel('Name of the device'), p.page.getByRole('dialog'))
    await p.press('Close', 'dialog')
    assert.equal(await p.page.locator('.settings').getByText('你好').count(), 0)
    await p.context.close()
  })
})
