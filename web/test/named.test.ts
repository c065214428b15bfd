// People are called by their names wherever a message mentions or quotes them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('names in messages', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  async function called(user: string, displayName: string): Promise<void> {
    const answer = await fetch(`${shared.server.url}/petrel.v1.AccountService/UpdateAccount`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${shared.server.tokens[user] ?? ''}` }, body: JSON.stringify({ displayName }) })
    assert.ok(answer.ok)
  }

  test('a mention shows the name, in the message, the list, quotes, pins and the field; what is stored is the id', async () => {
    const { conv, users: [ida = '', jon = '', kim = ''] } = await shared.group('Crew', 'ida', 'jon', 'kim')
    await called(jon, 'Jon Snow')
    await called(kim, '金 Kim')
    const p = await shared.open(ida, { route: `c/${conv}` })
    await p.field.fill(`ask @${jon} or @${kim}, not @nobody`)
    await p.field.press('Enter')
    const text = 'ask @Jon Snow or @金 Kim, not @nobody'
    const own = p.page.locator('.message.own', { hasText: 'not @nobody' })
    await own.getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    await until('the message names them', async () => await own.locator('.body').textContent() === text)
    assert.deepEqual(await own.locator('.mention').allTextContents(), ['@Jon Snow', '@金 Kim'])
    await p.row('Crew').getByText(`You: ${text}`).waitFor()
    await shared.server.sendAs(jon, { conv, text: `@${ida} here`, rel: { mentions: [ida], replyTo: '2' } })
    // The quote of one's own message says so.
    const answer = p.page.locator('.message', { has: p.page.locator('.quote') })
    await answer.locator('.quote-name').getByText('You', { exact: true }).waitFor()
    await answer.locator('.quote-text').getByText(text, { exact: true }).waitFor()
    await own.locator('.bubble').click({ button: 'right', position: { x: 10, y: 10 } })
    await p.page.getByRole('menuitem', { name: 'Reply' }).click()
    await p.page.locator('.intent-name').getByText('You', { exact: true }).waitFor()
    await p.page.locator('.intent').getByText(text, { exact: true }).waitFor()
    await own.locator('.bubble').click({ button: 'right', position: { x: 10, y: 10 } })
    await p.page.getByRole('menuitem', { name: 'Pin', exact: true }).click()
    await p.page.locator('.pin-bar').getByText(text, { exact: true }).waitFor()
    // In the field to edit it is as it is stored.
    await own.locator('.bubble').click({ button: 'right', position: { x: 10, y: 10 } })
    await p.page.getByRole('menuitem', { name: 'Edit' }).click()
    await p.has(`ask @${jon} or @${kim}, not @nobody`)
    await p.context.close()
  })
})
