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
    await more?.scrollIntoViewIfNeeded() // as the click would
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

  test('a long message that is unfolded while it waits stays so when it is stored', async () => {
    const [one = '', two = ''] = await shared.users('qi', 'rut')
    const p = await shared.open(one, { route: `u/${two}` })
    await p.say('before it')
    await p.stored('before it')
    await p.context.setOffline(true)
    await p.say(Array.from({ length: 100 }, (_, i) => `line ${i}`).join('\n'))
    await p.press('Show more')
    await p.page.getByRole('button', { name: 'Show less' }).waitFor()
    const bubble = p.page.locator('.message').last()
    await bubble.getByRole('img', { name: 'On its way' }).waitFor()
    await p.context.setOffline(false)
    await bubble.getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    assert.deepEqual(await bubble.locator('.body-fold').allTextContents(), ['Show less'])
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
