// Input methods: what they do with Enter and Escape in all fields of the page.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CDPSession, Locator } from 'playwright-core'
import { drawn, Person, suiteMs } from './browser.js'
import { Shared } from './shared.js'

describe('input methods', { timeout: suiteMs, concurrency: 3 }, () => {
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
    const { conv, users: [kim = ''] } = await shared.group('Names', 'kim', ...Array.from({ length: 21 }, (_, i) => `leo${i}of`)) // so many that they can be searched
    const p = await shared.open(kim, { route: `c/${conv}/info` })
    const typist = { p, devtools: await p.context.newCDPSession(p.page) }
    await shared.server.sendAs(kim, { conv, text: 'to be forwarded' })
    await compose(typist, p.page.getByRole('searchbox', { name: 'Search or @name' }), p.row('Names').or(p.page.getByText('Nothing found. Only names')).first())
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
    await compose(typist, info.getByRole('searchbox', { name: 'Search members' }), info)
    await inDialog(() => info.getByRole('button', { name: 'Rename' }).click(), 'Name of the group')
    await inDialog(() => info.getByRole('button', { name: 'Add members' }).click(), 'Add by user name or handle')
    await inDialog(async () => {
      await p.press('Menu')
      await p.page.getByRole('menuitem', { name: 'New group' }).click()
    }, 'Name of the group', 'Add by user name or handle')
    await p.go('settings')
    await inDialog(() => p.press('Edit the profile'), 'Name')
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

  test('a word that is being composed stays as it is while all else changes: the first message comes, others do, the connection goes and comes', async () => {
    const [nils = '', omar = ''] = await shared.users('nils', 'omar')
    const p = await shared.open(nils, { route: `u/${omar}` })
    const devtools = await p.context.newCDPSession(p.page)
    await p.page.getByText(`Write the first message to @${omar}`).waitFor() // there is no conversation yet
    await p.field.focus()
    await devtools.send('Input.imeSetComposition', { text: 'nihao', selectionStart: 5, selectionEnd: 5 })
    await p.field.evaluate((f) => {
      for (const event of ['compositionend', 'blur']) f.addEventListener(event, () => f.setAttribute('data-disturbed', event))
      f.setAttribute('data-same', '')
    })
    const { conv, seq } = await shared.server.sendAs(omar, { user: nils, text: 'the first one' })
    await p.message('the first one').waitFor()
    await shared.server.sendAs(omar, { conv, edit: { target: String(seq), text: 'the first one, edited' } })
    await p.message('the first one, edited').waitFor()
    const elsewhere = await shared.open(nils, { route: `u/${omar}` }) // another device
    await elsewhere.choose('the first one, edited', 'Pin')
    await p.page.locator('.pin-bar').waitFor()
    await elsewhere.say('of another device')
    await p.message('of another device').waitFor()
    await p.context.setOffline(true)
    await p.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor()
    await p.context.setOffline(false)
    await p.page.locator('.connection').waitFor({ state: 'detached' })
    await p.page.evaluate(() => navigator.serviceWorker.dispatchEvent(new Event('controllerchange')))
    assert.deepEqual(await p.field.evaluate((f) => [(f as HTMLTextAreaElement).value, f.hasAttribute('data-same'), f.getAttribute('data-disturbed'), f === document.activeElement]), ['nihao', true, null, true])
    await devtools.send('Input.insertText', { text: '你好' })
    assert.equal(await p.field.inputValue(), '你好')
    await p.field.press('Enter')
    await p.stored('你好')
    await Promise.all([p.context.close(), elsewhere.context.close()])
  })

  test('members and emojis are offered without a blank before the sign, as Chinese is written, and not within addresses, times and links', async () => {
    const { conv, users: [pam = '', quentin = ''] } = await shared.group('Offers', 'pam', 'quentin')
    const p = await shared.open(pam, { route: `c/${conv}`, options: { locale: 'zh-CN' } })
    await p.page.getByText('2 位成员').first().waitFor()
    const offers = p.page.getByRole('option')
    for (const text of [`请@${quentin.slice(0, 4)}`, '很好：笑', '，:微笑']) {
      await p.field.fill('')
      await p.field.pressSequentially(text)
      await offers.first().waitFor()
      await p.field.press('Escape')
    }
    for (const text of [`pam@${quentin.slice(0, 4)}`, 'at 12:30', 'https://ab']) {
      await p.field.fill('')
      await p.field.pressSequentially(text)
      await drawn(p.page)
      assert.equal(await offers.count(), 0, text)
    }
    await p.field.fill('')
    await p.field.pressSequentially(`请@${quentin.slice(0, 4)}`)
    await offers.first().waitFor()
    await p.field.press('Enter')
    await p.field.pressSequentially('看一下')
    await p.field.press('Enter')
    await p.page.locator('.message .mention', { hasText: `@${quentin}` }).waitFor()
    await p.context.close()
  })
})
