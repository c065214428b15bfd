// Menus and pickers on a phone: they come from below, and go by a pull, a press outside, or Escape.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CDPSession } from 'playwright-core'
import { drawn, type Person, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

const size = { width: 390, height: 780 }
const phone = { viewport: size, hasTouch: true, isMobile: true }

describe('sheets on a phone', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  async function open(): Promise<{ readonly p: Person; readonly peer: string; readonly devtools: CDPSession }> {
    const [user = '', peer = ''] = await shared.users('suse', 'timm')
    for (let i = 0; i < 12; i++) await shared.server.sendAs(peer, { user, text: `message ${i}` })
    const p = await shared.open(user, { route: `u/${peer}`, options: phone })
    await p.message('message 11').waitFor()
    return { p, peer, devtools: await p.context.newCDPSession(p.page) }
  }

  const rest = async ({ p, devtools }: { readonly p: Person; readonly devtools: CDPSession }, text: string): Promise<void> => {
    const { x = 0, y = 0 } = await p.message(text).locator('.bubble').boundingBox() ?? {}
    await devtools.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [{ x: x + 20, y: y + 15 }] })
    await p.page.getByRole('menu').waitFor()
    await devtools.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
  }

  const pull = async (devtools: CDPSession, y: number, by: number): Promise<void> => {
    await devtools.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [{ x: 195, y }] })
    for (let i = 1; i <= 4; i++) await devtools.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: [{ x: 195, y: y + by * i / 4 }] })
    await devtools.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
  }

  test('the menu of a message stands at the lower edge, covers no part of it, and puts the messages back when it goes', async () => {
    const all = await open()
    const { p } = all
    const bubble = p.message('message 11').locator('.bubble')
    const before = await bubble.boundingBox()
    await rest(all, 'message 11')
    const menu = p.page.getByRole('menu')
    const [sheet, message] = await Promise.all([menu.boundingBox(), bubble.boundingBox()])
    assert.ok(sheet && message && before)
    assert.deepEqual([sheet.x, sheet.width, Math.round(sheet.y + sheet.height)], [0, size.width, size.height])
    assert.ok(before.y + before.height > sheet.y, 'the message was where the menu is now')
    assert.ok(message.y + message.height <= sheet.y, `the message ends at ${message.y + message.height}, the menu begins at ${sheet.y}`)
    await p.page.keyboard.press('Escape')
    await until('the message is where it was', async () => JSON.stringify(await bubble.boundingBox()) === JSON.stringify(before))
    await p.context.close()
  })

  test('a pull down closes it, a short one does not; a press outside closes it and presses nothing', async () => {
    const all = await open()
    const { p, devtools } = all
    const menu = p.page.getByRole('menu')
    await rest(all, 'message 10')
    const { y = 0 } = await menu.boundingBox() ?? {}
    await pull(devtools, y + 10, 40)
    await drawn(p.page)
    assert.equal((await menu.boundingBox())?.y, y)
    await pull(devtools, y + 10, 160)
    await menu.waitFor({ state: 'detached' })
    await rest(all, 'message 10')
    await p.page.touchscreen.tap(180, 30) // on the title, which opens the info
    await menu.waitFor({ state: 'detached' })
    await drawn(p.page)
    assert.equal(await p.page.getByRole('complementary').count(), 0)
    await p.page.touchscreen.tap(180, 30)
    await p.page.getByRole('complementary').waitFor()
    await p.context.close()
  })

  test('so do the menus of the chat and of the account, and what emojis are chosen from', async () => {
    const all = await open()
    const { p, devtools } = all
    const menu = p.page.getByRole('menu')
    const more = p.page.locator('.chat-header').getByRole('button', { name: 'More' })
    await more.tap()
    assert.equal((await menu.boundingBox())?.width, size.width)
    await p.page.keyboard.press('Escape')
    await menu.waitFor({ state: 'detached' })
    await until('the focus is back', () => more.evaluate((b) => b === document.activeElement))
    await rest(all, 'message 9')
    await p.page.getByRole('menuitem', { name: 'React with another emoji' }).tap()
    const dialog = p.page.getByRole('dialog', { name: 'React', exact: true })
    await dialog.evaluate((e) => Promise.all(e.getAnimations().map((a) => a.finished))) // it slides up
    const place = await dialog.boundingBox()
    assert.ok(place && place.width === size.width && Math.round(place.y + place.height) === size.height, JSON.stringify(place))
    await pull(devtools, place.y + 12, 200)
    await dialog.waitFor({ state: 'detached' })
    // The emojis of the field stand below it, and the newest message above both.
    await p.page.getByRole('button', { name: 'Emoji', exact: true }).tap()
    const picker = await p.page.getByRole('dialog', { name: 'Emoji' }).boundingBox()
    await drawn(p.page)
    const [newest, field] = await Promise.all([p.message('message 11').boundingBox(), p.field.boundingBox()])
    assert.ok(newest && field && picker && newest.y + newest.height <= field.y && field.y + field.height <= picker.y, JSON.stringify([newest, field, picker]))
    await p.page.goBack()
    await p.press('Menu')
    assert.equal((await menu.boundingBox())?.width, size.width)
    await p.context.close()
  })
})
