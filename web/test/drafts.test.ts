// Drafts: texts that are not sent yet, in every tab of an account.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { drawn, type Person, suiteMs } from './browser.js'
import { Shared } from './shared.js'

describe('a draft', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  async function twoTabs(name: string, width: number): Promise<readonly [Person, Person, string]> {
    const [user = '', peer = ''] = await shared.users(name, 'peer')
    const one = await shared.open(user, { route: `u/${peer}`, options: { viewport: { width, height: 800 } } })
    const two = await shared.open(user, { route: `u/${peer}`, context: one.context })
    return [one, two, peer]
  }
  const leave = (p: Person): Promise<void> => p.field.evaluate((f) => f.blur())

  for (const width of [390, 1440]) {
    test(`is in the other tab as it is written, and gone when it is sent, ${width} px wide`, async () => {
      const [one, two] = await twoTabs('tess', width)
      await leave(two)
      await one.field.pressSequentially('half a')
      await two.has('half a')
      await leave(one)
      await two.field.press('End')
      await two.field.pressSequentially(' thought')
      await one.has('half a thought')
      await one.page.getByRole('button', { name: 'Send', exact: true }).click()
      await one.stored('half a thought')
      await leave(two)
      await two.has('')
      assert.equal(await two.page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true)
      await one.context.close()
    })
  }

  test('overwrites no field in which somebody writes or an input method composes, and comes when they leave it', async () => {
    const [one, two] = await twoTabs('uma', 1000)
    await two.field.fill('mine')
    await two.field.focus()
    await one.field.fill('theirs')
    await two.page.waitForFunction(() => Object.entries(localStorage).some(([key, text]) => key.includes(':draft:') && text === 'theirs'))
    await drawn(two.page)
    assert.equal(await two.field.inputValue(), 'mine')
    await leave(two)
    await two.has('theirs')
    // An input method may compose after the focus has gone from the field, as on a phone.
    await two.field.evaluate((f) => f.dispatchEvent(new CompositionEvent('compositionstart', { bubbles: true })))
    await one.field.fill('theirs again')
    await two.page.waitForFunction(() => Object.entries(localStorage).some(([key, text]) => key.includes(':draft:') && text === 'theirs again'))
    await drawn(two.page)
    assert.equal(await two.field.inputValue(), 'theirs')
    await two.field.evaluate((f) => f.dispatchEvent(new CompositionEvent('compositionend', { bubbles: true })))
    await two.has('theirs again')
    await one.context.close()
  })

  test('leaves an edit alone, which gives the newest draft back', async () => {
    const [one, two] = await twoTabs('vic', 1000)
    await two.say('a message')
    await two.stored('a message')
    await two.choose('a message', 'Edit')
    await leave(two)
    await one.field.fill('written meanwhile')
    await two.page.waitForFunction(() => Object.entries(localStorage).some(([key]) => key.includes(':draft:')))
    await drawn(two.page)
    assert.equal(await two.field.inputValue(), 'a message')
    await two.page.getByRole('button', { name: 'Cancel' }).click()
    await two.has('written meanwhile')
    await one.context.close()
  })
})
