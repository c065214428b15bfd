// Messages that a person deletes for themselves alone, and conversations that they clear.
import { describe, test } from 'node:test'
import { type Person, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('deleted for oneself', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  /** Two devices of a user, and the other one, at their conversation. */
  async function devices(name: string, width: number): Promise<{ readonly one: Person; readonly two: Person; readonly other: Person; readonly user: string; readonly peer: string }> {
    const [user = '', peer = ''] = await shared.users(name, 'peer')
    const options = { viewport: { width, height: 800 } }
    const [one, two, other] = await Promise.all([shared.open(user, { route: `u/${peer}`, options }), shared.open(user, { route: `u/${peer}`, options }), shared.open(peer, { route: `u/${user}` })])
    for (const text of ['first', 'second', 'third']) {
      await one.say(text)
      await one.stored(text)
    }
    await one.choose('second', 'Reply')
    await one.say('an answer')
    await one.stored('an answer')
    await Promise.all([two, other].map((p) => p.message('an answer').waitFor()))
    return { one, two, other, user, peer }
  }
  const shows = (p: Person, texts: readonly string[]): Promise<void> => until(`${texts.join()} at ${p.user}`, async () => (await p.texts()).join() === texts.join())

  for (const width of [390, 1440]) {
    test(`is a message on all devices, for nobody else, and after a reload, ${width} px wide`, async () => {
      const { one, two, other, user, peer } = await devices('hera', width)
      await one.choose('second', 'Delete for me')
      await one.press('Delete for me', 'dialog')
      for (const p of [one, two]) {
        await shows(p, ['first', 'third', 'an answer'])
        await p.message('an answer').locator('.quote', { hasText: 'This message is not available' }).waitFor()
      }
      // Several at once, by the keyboard.
      await two.message('third').locator('..').press('Space')
      await two.page.keyboard.press('Shift+ArrowDown')
      await two.page.getByRole('toolbar', { name: '2 selected', exact: true }).getByRole('button', { name: 'Delete for me' }).press('Enter')
      await two.page.getByRole('dialog').getByRole('button', { name: 'Delete for me' }).press('Enter')
      for (const p of [one, two]) await shows(p, ['first'])
      await one.page.evaluate((hash) => { location.hash = hash }, `#/${user}`)
      await one.row(peer).locator('.chat-row-last', { hasText: /^first$/ }).waitFor() // the last message by the list
      await one.page.reload()
      await one.row(peer).click()
      await shows(one, ['first'])
      await shows(other, ['first', 'second', 'third', 'an answer'])
      await Promise.all([one, two, other].map((p) => p.context.close()))
    })
  }

  test('is all of a conversation that is cleared, and what comes then is shown', async () => {
    const { one, two, other, user, peer } = await devices('iris', 1440)
    await other.field.fill('unread')
    await other.field.press('Enter')
    await one.message('unread').waitFor()
    await one.row(peer).click({ button: 'right' })
    await one.page.getByRole('menuitem', { name: 'Clear the conversation' }).click()
    await one.press('Clear the conversation', 'dialog')
    for (const p of [one, two]) {
      await shows(p, [])
      await until('the list says nothing of it', async () => await p.row(peer).locator('.chat-row-last').innerText() === '' && await p.row(peer).locator('.badge').count() === 0)
    }
    await shows(other, ['first', 'second', 'third', 'an answer', 'unread'])
    await shared.server.sendAs(peer, { user, text: 'after that' })
    for (const p of [one, two]) await shows(p, ['after that'])
    await one.page.reload()
    await one.message('after that').waitFor()
    await shows(one, ['after that'])
    await Promise.all([one, two, other].map((p) => p.context.close()))
  })
})
