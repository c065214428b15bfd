// Threads: opened from their root, answered there, and left.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { drawn, type Person, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('a thread', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()
  const panel = (p: Person): Locator => p.page.getByRole('complementary', { name: 'Thread' })
  const field = (p: Person): Locator => panel(p).getByRole('textbox', { name: 'Reply in thread' })
  const said = (p: Person): Promise<string[]> => panel(p).locator('.message .body').allTextContents()
  const main = (p: Person): Promise<string[]> => p.page.locator('.chat > .timeline .message .body').allTextContents()
  const reply = async (p: Person, text: string): Promise<void> => {
    await field(p).fill(text)
    await field(p).press('Enter')
    await panel(p).locator('.message', { hasText: text }).getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
  }

  for (const width of [390, 1440]) {
    test(`is opened from its root, answered, and closed by Escape and by Back, ${width} px wide`, async () => {
      const { conv, users: [a = '', b = ''] } = await shared.group('Thread group', 'ann', 'ben')
      const options = { viewport: { width, height: 800 } }
      const ann = await shared.open(a, { route: `c/${conv}`, options })
      const ben = await shared.open(b, { route: `c/${conv}` })
      await ann.say('the root')
      await ann.stored('the root')
      await ann.choose('the root', 'Thread')
      await panel(ann).getByText('No replies yet').first().waitFor()
      await reply(ann, 'first reply')
      await ben.page.getByRole('button', { name: '1 reply' }).waitFor()
      assert.deepEqual(await main(ben), ['the root']) // it stands in the thread only
      await ben.page.getByRole('button', { name: '1 reply' }).click()
      await panel(ben).locator('.message', { hasText: 'first reply' }).waitFor()
      await reply(ben, 'second reply')
      await until('both are there', async () => (await said(ann)).join() === 'the root,first reply,second reply')
      await panel(ann).getByText('2 replies').waitFor()
      // One can be edited where it stands.
      await field(ann).press('ArrowUp')
      await until('the field has the reply', async () => await field(ann).inputValue() === 'first reply')
      await reply(ann, 'first reply, better')
      await until('the edit is there', async () => (await said(ben)).join() === 'the root,first reply, better,second reply')
      assert.equal(await ann.page.locator('.chat > .timeline').isVisible(), width === 1440) // on a phone it takes the whole view
      await field(ann).press('Escape')
      await panel(ann).waitFor({ state: 'detached' })
      assert.deepEqual(await main(ann), ['the root'])
      await until('nothing is unread', async () => await ben.page.locator('.chat-row .badge').count() === 0)
      // By keyboard alone: from the message to its count, and back by the browser.
      await ann.page.getByRole('button', { name: '2 replies' }).focus()
      await ann.page.keyboard.press('Enter')
      await panel(ann).locator('.message', { hasText: 'second reply' }).waitFor()
      await ann.page.goBack()
      await panel(ann).waitFor({ state: 'detached' })
      await Promise.all([ann.context.close(), ben.context.close()])
    })
  }

  test('is whole also where its messages are far back among thousands of others', async () => {
    const [user = '', peer = ''] = await shared.users('cleo', 'peer')
    const first = await shared.open(user, { route: `u/${peer}` })
    await first.say('an old root')
    await first.stored('an old root')
    await first.choose('an old root', 'Thread')
    await reply(first, 'an old reply')
    await first.context.close()
    for (let i = 0; i < 700; i += 50) await Promise.all(Array.from({ length: 50 }, (_, j) => shared.server.sendAs(peer, { user, text: `other ${i + j}` })))
    const p = await shared.open(user, { route: `u/${peer}` })
    await p.message('other 699').or(p.page.locator('.message')).first().waitFor()
    await p.go(`u/${peer}/t/1`)
    await until('the old reply is there', async () => (await said(p)).join() === 'an old root,an old reply')
    await reply(p, 'a new reply')
    assert.deepEqual(await said(p), ['an old root', 'an old reply', 'a new reply'])
    await drawn(p.page)
    await panel(p).getByText('2 replies').waitFor()
    await p.context.close()
  })
})
