// Long texts, and texts that are made to hold a page.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { suiteMs } from './browser.js'
import { Shared } from './shared.js'

describe('long texts', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  test('a long message is folded, grows downwards and becomes short again', async () => {
    const [reader = '', writer = ''] = await shared.users('lea', 'max')
    await shared.server.sendAs(writer, { user: reader, text: Array.from({ length: 3000 }, (_, i) => `line ${i}`).join('\n') })
    const p = await shared.open(reader, { route: `u/${writer}` })
    const body = p.page.locator('.message .body')
    const [more, less] = ['Show more', 'Show less'].map((name) => p.page.getByRole('button', { name }))
    await more?.waitFor()
    const height = async (): Promise<number> => (await body.boundingBox())?.height ?? 0
    const top = async (): Promise<number> => (await body.boundingBox())?.y ?? 0
    assert.ok(await height() < 700)
    const before = await top()
    await more?.click()
    await less?.waitFor()
    assert.ok(await height() > 30_000)
    assert.ok(Math.abs(await top() - before) <= 1, `the message has moved by ${await top() - before} px`)
    await less?.click()
    await more?.waitFor()
    assert.ok(await height() < 700)
    await p.context.close()
  })

  test('a message that is made to hold a page does not', async () => {
    const [reader = '', writer = ''] = await shared.users('mia', 'nik')
    for (const text of [`http://x/${')'.repeat(49_000)}`, '**a '.repeat(12_000), '~~a '.repeat(12_000), '_a _'.repeat(12_000), 'a_'.repeat(24_000)]) await shared.server.sendAs(writer, { user: reader, text })
    await shared.server.sendAs(writer, { user: reader, text: 'after them' })
    const p = await shared.open(reader, { route: `u/${writer}` })
    await p.message('after them').waitFor()
    assert.equal(await p.page.locator('.message').count(), 6)
    await p.context.close()
  })

  test('characters are counted while somebody writes, and what is too long is not sent', async () => {
    const [one = '', two = ''] = await shared.users('ole', 'pia')
    const p = await shared.open(one, { route: `u/${two}` })
    const said = p.page.locator('.composer-length')
    const send = p.page.getByRole('button', { name: 'Send', exact: true })
    await p.field.fill('short')
    assert.equal(await said.count(), 0)
    await p.field.fill('a'.repeat(1234))
    await said.getByText('1234 characters').waitFor()
    await p.field.fill('海'.repeat(16_385)) // 48 KiB and 3 bytes
    await said.getByText('Too long by 1 character', { exact: true }).waitFor()
    assert.ok(await send.isDisabled())
    await p.field.press('Enter')
    assert.equal(await p.page.locator('.message').count(), 0)
    await p.field.press('Backspace')
    await said.getByText('16384 characters').waitFor()
    await send.click()
    await p.page.locator('.message').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    assert.equal(await said.count(), 0)
    await p.context.close()
  })
})
