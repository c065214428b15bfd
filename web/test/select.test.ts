// Several messages at once: selected, forwarded, copied and deleted.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Person, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

const phone = { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true } as const
const desktop = { viewport: { width: 1440, height: 900 } } as const

describe('a selection', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  const count = (p: Person, n: number): Promise<void> => p.page.getByRole('toolbar', { name: `${n} selected`, exact: true }).waitFor()

  /** A person in a chat in which they and the other one have said something. */
  async function talk(name: string, options: typeof phone | typeof desktop): Promise<{ readonly p: Person; readonly user: string; readonly peer: string }> {
    const [user = '', peer = ''] = await shared.users(name, 'peer')
    const p = await shared.open(user, { route: `u/${peer}`, options: { ...options, permissions: ['clipboard-read', 'clipboard-write'] } })
    for (const text of ['one', 'two', 'three']) {
      await p.field.fill(text)
      await p.press('Send')
    }
    await p.stored('three')
    await shared.server.sendAs(peer, { user, text: 'four' })
    await p.message('four').waitFor()
    return { p, user, peer }
  }

  for (const [where, options] of Object.entries({ phone, desktop })) {
    test(`is forwarded in its order on a ${where}`, async () => {
      const { p, user } = await talk('nora', options)
      await p.field.fill('a draft')
      await p.choose('three', 'Select')
      await count(p, 1)
      for (const text of ['one', 'two']) await (where === 'phone' ? p.message(text).tap() : p.message(text).click())
      await count(p, 3)
      await p.message('two').click() // takes it out again
      await count(p, 2)
      assert.equal(await p.field.isVisible(), false)
      await p.press('Forward')
      await p.page.getByRole('dialog').getByRole('button', { name: 'My notes' }).click()
      await until('the notes are open', () => p.page.url().endsWith(`/u/${user}`))
      await p.stored('three')
      assert.deepEqual(await p.texts(), ['one', 'three'])
      assert.equal(await p.page.getByRole('toolbar').count(), 0)
      await p.context.close()
    })
  }

  test('is made by the keyboard alone, copied with names and times, and ended by Escape', async () => {
    const { p, user, peer } = await talk('kaya', desktop)
    await p.field.press('Shift+Tab')
    await p.page.keyboard.press('Shift+Tab')
    await until('the newest message has the focus', () => p.page.evaluate(() => document.activeElement?.hasAttribute('data-key') ?? false))
    await p.page.keyboard.press('Space')
    await count(p, 1)
    await p.page.keyboard.press('Space')
    await count(p, 0)
    await p.page.keyboard.press('Shift+ArrowUp')
    await count(p, 2)
    await p.press('Copy text')
    await p.page.getByText('Copied').waitFor()
    const copied = await p.page.evaluate(() => navigator.clipboard.readText())
    assert.match(copied, new RegExp(`^${user}, .*\\d:\\d\\d [AP]M\\nthree\\n\\n${peer}, .*\\d:\\d\\d [AP]M\\nfour$`))
    await p.message('four').locator('..').press('Space')
    await count(p, 1)
    await p.page.getByRole('toolbar').getByRole('button', { name: 'Forward' }).press('Enter')
    await p.page.getByRole('dialog').waitFor()
    await p.page.keyboard.press('Escape') // the dialog alone
    await count(p, 1)
    await p.page.keyboard.press('Escape')
    await p.page.getByRole('toolbar').waitFor({ state: 'detached' })
    await p.field.waitFor()
    assert.ok(p.page.url().endsWith(`/u/${peer}`))
    await p.context.close()
  })

  test('is deleted for everyone where each of it may be', async () => {
    const { p } = await talk('dora', desktop)
    await p.choose('one', 'Select')
    await p.message('four').click()
    await count(p, 2)
    assert.equal(await p.page.getByRole('toolbar').getByRole('button', { name: 'Delete for everyone' }).count(), 0) // it is of somebody else
    await p.message('four').click()
    await p.message('two').click()
    await p.press('Delete for everyone')
    await p.press('Delete for everyone', 'dialog')
    await until('both are gone', async () => await p.message('You deleted this message').count() === 2)
    assert.deepEqual((await p.texts()).filter((text) => !text.includes('deleted')), ['three', 'four'])
    await p.context.close()
  })
})
