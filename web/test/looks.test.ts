// Visible details that would annoy a person if they were otherwise.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { launch, Person, suiteMs, troubles } from './browser.js'
import { Server } from './server.js'

describe('how it looks', { timeout: suiteMs, concurrency: 3 }, () => {
  let server: Server
  let browser: Browser
  let links: Readonly<Record<string, string>>

  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()])
    links = await server.users('ann', 'ben', 'cleo')
    await server.sendAs('ben', { user: 'ann', text: 'A text that is long enough to fill a line of the bubble from one side to the other, and then some of the next' })
    const answer = await fetch(`${server.url}/petrel.v1.AccountService/UpdateAccount`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens['ben'] ?? ''}` }, body: JSON.stringify({ displayName: 'فريد الحسن' }),
    })
    assert.ok(answer.ok)
  })
  after(async () => {
    await browser.close()
    await server.stop()
    assert.deepEqual(troubles(), [])
  })

  test('a line says that there is no connection, though it is tried again and again', async () => {
    const ann = await (await Person.open(browser, links['ann'] ?? '')).ready()
    await ann.row('فريد').waitFor()
    await ann.page.routeWebSocket(/\/v1\/ws/, (ws) => void ws.close({ code: 4000 }))
    await ann.page.clock.install()
    await ann.page.reload()
    await ann.row('فريد').waitFor()
    const line = ann.page.locator('.connection').getByText('Connecting…')
    await ann.page.clock.pauseAt(await ann.page.evaluate(() => Date.now() + 60_000)) // a time that has not passed yet when the page hears of it
    for (let ms = 0; ms < 5000; ms += 100) await ann.page.clock.runFor(100)
    await line.waitFor()
    await ann.page.clock.resume()
    await ann.page.setViewportSize({ width: 390, height: 780 }) // there the list is not seen beside a chat
    await ann.page.goto(`${server.url}/#/ann/u/ben`)
    await ann.page.locator('.chat-header').getByText('Connecting…').waitFor()
    await ann.context.close()
  })

  test('a dialog begins in its first field', async () => {
    const cleo = await (await Person.open(browser, links['cleo'] ?? '')).ready()
    await cleo.page.getByRole('button', { name: 'Menu' }).click()
    await cleo.page.getByRole('menuitem', { name: 'New group' }).click()
    await cleo.page.getByRole('dialog').waitFor()
    await cleo.page.keyboard.type('Boats')
    assert.equal(await cleo.page.getByLabel('Name of the group').inputValue(), 'Boats')
    await cleo.context.close()
  })

  test('a user name is in small letters when it is made, and found in any', async () => {
    const dora = await Person.open(browser, server.url)
    await dora.page.getByRole('button', { name: 'Make a new account' }).click()
    await dora.page.getByLabel('User name').fill('Dora Mar')
    await dora.page.getByLabel('Password').fill('a long password')
    await dora.page.getByRole('button', { name: 'Sign up' }).click()
    await dora.page.getByRole('alert').getByText('no blank').waitFor()
    await dora.page.getByLabel('User name').fill('Dora')
    await dora.page.getByRole('button', { name: 'Sign up' }).click()
    await dora.ready()
    await dora.page.getByText('Friends find you by your user name: @dora').waitFor()
    await dora.page.getByRole('searchbox').fill('Cleo')
    await dora.page.locator('.people-row', { hasText: '@cleo' }).waitFor()
    await dora.context.close()
  })

  test('who makes an account is told in the words of the page what is wrong, and where', async () => {
    const p = await Person.open(browser, server.url)
    const [handle, password] = [p.page.getByLabel('User name'), p.page.getByLabel('Password')]
    const has = (field: typeof handle): Promise<boolean> => field.evaluate((f) => f === document.activeElement)
    await p.press('Make a new account')
    assert.ok(await has(handle))
    await handle.fill('e va')
    await password.fill('short')
    await p.press('Sign up')
    await p.page.getByRole('alert').getByText('no blank').waitFor()
    assert.ok(await has(handle))
    await handle.fill('eva')
    await p.press('Sign up')
    await p.page.getByRole('alert').getByText('At least 8 characters').waitFor()
    assert.ok(await has(password))
    await password.fill('password123')
    await p.press('Sign up')
    await p.page.getByText('This password is too easy to guess.').waitFor()
    assert.ok(await has(password))
    await p.context.close()
  })

  test('what is deleted for everyone was not deleted by a second click, and asks first', async () => {
    const ann = await (await Person.open(browser, links['ann'] ?? '')).ready()
    await ann.go('u/ann')
    await ann.say('to be kept')
    await ann.stored('to be kept')
    const bubble = ann.message('to be kept').locator('.bubble')
    await bubble.hover()
    const { x, y } = await bubble.evaluate((b) => ({ x: b.getBoundingClientRect().left + 20, y: b.getBoundingClientRect().top + 15 }))
    await bubble.click({ button: 'right', position: { x: 20, y: 15 } })
    await ann.page.getByRole('menu').waitFor()
    assert.equal(await ann.page.evaluate(([left, top]) => document.elementFromPoint(left, top)?.closest('.menu') === null, [x, y] as const), true, 'the menu is not under the pointer')
    await ann.page.getByRole('menuitem', { name: 'Delete for everyone' }).click()
    await ann.press('Cancel', 'dialog')
    await ann.page.reload()
    await ann.message('to be kept').waitFor()
    await ann.recall('to be kept')
    await ann.message('You deleted this message').waitFor()
    await ann.context.close()
  })

  test('the day that stands above the messages is parted from what is below it by a ring in the colour behind both', async () => {
    const ben = await (await Person.open(browser, links['ben'] ?? '')).ready()
    for (const colorScheme of ['light', 'dark'] as const) {
      await ben.page.emulateMedia({ colorScheme })
      await ben.row('ann').click()
      const [ring, behind] = await ben.page.locator('.day button').first().evaluate((b) => [getComputedStyle(b).boxShadow, getComputedStyle(b.closest('.main') as Element).backgroundColor])
      assert.equal(ring, `${behind} 0px 0px 0px 4px`)
    }
    await ben.context.close()
  })

  test('presence is a circle with a ring of what is behind it, and is seen on the row that is chosen', async () => {
    const [ann, ben] = await Promise.all(['ann', 'ben'].map(async (u) => (await Person.open(browser, links[u] ?? '')).ready())) as [Person, Person]
    await ben.go('u/ann')
    await ben.page.locator('.chat-header .avatar-online').waitFor()
    for (const colorScheme of ['light', 'dark'] as const) {
      await ben.page.emulateMedia({ colorScheme })
      for (const where of ['.chat-row.selected', '.chat-header']) {
        const dot = await ben.page.locator(`${where} .avatar-online`).evaluate((a) => {
          const { width, height, boxShadow, backgroundColor } = getComputedStyle(a, '::after')
          return { width, height, ring: boxShadow, colour: backgroundColor, behind: getComputedStyle(a.closest('.chat-row, .chat-header') as Element).backgroundColor }
        })
        assert.equal(dot.width, dot.height)
        assert.equal(parseFloat(dot.width) % 1, 0)
        assert.ok(dot.ring.startsWith(dot.behind), `${where}: a ring of ${dot.ring} on ${dot.behind}`)
        if (where === '.chat-row.selected') assert.equal(dot.colour, 'rgb(255, 255, 255)')
      }
    }
    await Promise.all([ann.context.close(), ben.context.close()])
  })

  test('large emojis and their time stand at the side of whoever writes', async () => {
    const ann = await (await Person.open(browser, links['ann'] ?? '')).ready()
    await ann.go('u/ann')
    for (const text of ['👍', '🔥🔥🔥']) {
      await ann.say(text)
      await ann.stored(text)
      const { row, signs, meta, isBelow } = await ann.page.locator(`.message.large:has-text("${text}")`).last().evaluate((m) => {
        const range = document.createRange()
        range.selectNodeContents(m.querySelector('.body') as Element)
        const [of, time] = [range.getBoundingClientRect(), (m.querySelector('.meta') as Element).getBoundingClientRect()]
        return { row: m.getBoundingClientRect().right, signs: of.right, meta: time.right, isBelow: time.top >= of.bottom - 8 }
      })
      assert.ok(Math.abs(signs - row) <= 8 && Math.abs(meta - row) <= 1 && isBelow, JSON.stringify({ row, signs, meta, isBelow }))
    }
    await ann.context.close()
  })

  test('the day above the messages never stands on the line of unread messages', async () => {
    const users = await server.users('dick', 'edda')
    let newest = { conv: '', seq: 0 }
    for (let i = 0; i < 24; i++) newest = await server.sendAs('edda', { user: 'dick', text: `before ${i}` })
    const read = await fetch(`${server.url}/petrel.v1.MessageService/MoveCursor`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens['dick'] ?? ''}` }, body: JSON.stringify({ conv: newest.conv, read: String(newest.seq), delivered: String(newest.seq) }) })
    assert.ok(read.ok)
    for (let i = 0; i < 30; i++) await server.sendAs('edda', { user: 'dick', text: `after ${i}` })
    const dick = await (await Person.open(browser, users['dick'] ?? '')).ready()
    await dick.row('edda').getByText('30 unread messages').waitFor({ state: 'attached' })
    await dick.page.evaluate(() => { document.hasFocus = () => false })
    await dick.go('u/edda')
    await dick.page.locator('.unread-line').waitFor()
    const touch = (): Promise<string[]> => dick.page.evaluate(async () => {
      const view = document.querySelector('.timeline-view') as HTMLElement
      const found: string[] = []
      for (let at = view.scrollHeight; at >= 0; at -= 7) {
        view.scrollTo(0, at)
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
        const line = document.querySelector('.unread-line')?.getBoundingClientRect()
        for (const day of document.querySelectorAll('.day button')) {
          const { top, bottom } = day.getBoundingClientRect()
          if (line && getComputedStyle(day).visibility === 'visible' && top < line.bottom && bottom > line.top) found.push(`${at}: the day ${top}–${bottom}, the line ${line.top}–${line.bottom}`)
        }
      }
      return found
    })
    assert.deepEqual(await touch(), [])
    await dick.context.close()
  })

  test('a conversation with pinned messages is shown without a jump', async () => {
    const users = await server.users('paul', 'pia')
    for (let i = 0; i < 30; i++) await server.sendAs('pia', { user: 'paul', text: `line ${i}` })
    const { conv } = await server.sendAs('pia', { user: 'paul', text: 'the newest line' })
    const pin = await fetch(`${server.url}/petrel.v1.MessageService/Pin`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens['paul'] ?? ''}` }, body: JSON.stringify({ conv, seq: '3' }) })
    assert.ok(pin.ok)
    const paul = await (await Person.open(browser, users['paul'] ?? '', { viewport: { width: 390, height: 780 } })).ready()
    await paul.go('u/pia')
    await paul.page.locator('.pin-bar').waitFor()
    await paul.page.addInitScript(() => {
      const shifts: string[] = []
      Object.assign(window, { shifts })
      new PerformanceObserver((list) => {
        for (const e of list.getEntries() as (PerformanceEntry & { readonly value: number; readonly sources: readonly { readonly node?: Node; readonly previousRect: DOMRect; readonly currentRect: DOMRect }[] })[]) {
          shifts.push(`${e.value}: ${e.sources.map((s) => `${(s.node as Element | undefined)?.className} ${s.previousRect.top}–${s.previousRect.bottom} to ${s.currentRect.top}–${s.currentRect.bottom}`).join(', ')}`)
        }
      }).observe({ type: 'layout-shift', buffered: true })
    })
    for (const where of ['where the person read', 'at the end'] as const) {
      if (where === 'at the end') await paul.page.locator('.timeline-view').evaluate((v) => v.scrollTo(0, v.scrollHeight))
      await paul.page.reload()
      await paul.page.locator('.pin-bar').waitFor()
      await paul.message('the newest line').waitFor()
      await paul.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))) // the observer has seen the drawing
      assert.deepEqual(await paul.page.evaluate(() => (window as unknown as { readonly shifts: readonly string[] }).shifts), [], where)
    }
    await paul.context.close()
  })

  test('on a phone nothing covers the newest message, and no row stops under the pinned one', async () => {
    const users = await server.users('quin', 'rosa')
    const { conv } = await server.admin('AdminService/CreateGroup', { title: 'Quay', members: [{ user: 'rosa', role: 'ROLE_OWNER' }, { user: 'quin' }] }) as { conv: string }
    for (let i = 0; i < 40; i++) await server.sendAs('rosa', { conv, text: `a line that is as wide as the window: ${i}`, ...(i === 2 ? { rel: { mentions: ['quin'] } } : {}) })
    const pin = await fetch(`${server.url}/petrel.v1.MessageService/Pin`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens['rosa'] ?? ''}` }, body: JSON.stringify({ conv, seq: '3' }) })
    assert.ok(pin.ok)
    const quin = await Person.open(browser, 'about:blank', { viewport: { width: 390, height: 780 } })
    await quin.page.addInitScript(() => { Document.prototype.hasFocus = () => false }) // nothing becomes read, so the way to the mention stays
    await quin.page.goto(users['quin'] ?? '')
    await (await quin.ready()).go(`c/${conv}`)
    await quin.page.locator('.pin-bar').waitFor()
    await quin.page.getByRole('button', { name: 'To the newest message' }).click()
    await quin.page.locator('.way-at').waitFor()
    await quin.page.waitForFunction(() => document.querySelectorAll('.way').length === 1)
    const cover = (what: string): Promise<number> => quin.page.evaluate((selector) => {
      const newest = [...document.querySelectorAll('.message .bubble')].at(-1)?.getBoundingClientRect() ?? new DOMRect()
      return [...document.querySelectorAll(selector)].map((e) => e.getBoundingClientRect()).filter((c) => c.top < newest.bottom && c.bottom > newest.top && c.left < newest.right && c.right > newest.left).length
    }, what)
    assert.equal(await cover('.way, .way .badge'), 0)
    await quin.choose('a line that is as wide as the window: 39', 'Copy')
    await quin.page.locator('.toast').waitFor()
    assert.equal(await cover('.toast'), 0)
    await quin.page.locator('.timeline-content [tabindex="0"][data-key]').focus()
    for (let i = 0; i < 30; i++) {
      await quin.page.keyboard.press('ArrowUp')
      const [row, bar] = await quin.page.evaluate(() => [document.activeElement?.getBoundingClientRect().top ?? 0, document.querySelector('.pin-bar')?.getBoundingClientRect().bottom ?? 0])
      assert.ok((row ?? 0) >= (bar ?? 0) - 1, `a row is at ${row}, below a bar that ends at ${bar}`)
    }
    await quin.context.close()
  })

  test('a password can be shown, and is hidden again', async () => {
    const p = await Person.open(browser, server.url)
    const password = p.page.getByLabel('Password')
    await password.fill('a long password')
    const show = p.page.getByRole('button', { name: 'Show the password' })
    assert.equal(await password.getAttribute('type'), 'password')
    await show.press('Enter')
    assert.deepEqual([await password.getAttribute('type'), await show.getAttribute('aria-pressed'), await password.inputValue()], ['text', 'true', 'a long password'])
    await show.click()
    assert.equal(await password.getAttribute('type'), 'password')
    await p.context.close()
  })

  test('beside a list in which nothing is chosen stands what to do', async () => {
    const ben = await (await Person.open(browser, links['ben'] ?? '')).ready()
    await ben.page.getByRole('heading', { name: 'Choose a conversation' }).waitFor()
    await ben.page.getByRole('main').getByRole('button', { name: 'Find a person' }).click()
    await ben.page.getByRole('dialog', { name: 'New chat' }).waitFor()
    await ben.context.close()
  })

  test('sizes are those that people know from other chats', async () => {
    const ben = await (await Person.open(browser, links['ben'] ?? '', { viewport: { width: 1440, height: 900 } })).ready()
    await server.sendAs('ann', { user: 'ben', text: 'a long text '.repeat(30).trim() })
    await server.sendAs('ben', { user: 'ann', text: 'an own long text '.repeat(30).trim() })
    await ben.go('u/ann/info')
    await ben.page.locator('.message.own').first().waitFor()
    const wide = (selector: string, side: 'width' | 'height' = 'width'): Promise<number> => ben.page.locator(selector).last().evaluate((e, s) => Math.round(e.getBoundingClientRect()[s]), side)
    assert.deepEqual({
      info: await wide('.info'), header: await wide('.chat-header', 'height'), row: await wide('.chat-row', 'height'),
    }, { info: 424, header: 56, row: 72 })
    await ben.go('u/ann')
    await ben.page.locator('.info').waitFor({ state: 'detached' })
    assert.deepEqual({ column: await wide('.timeline-content'), others: await wide('.message:not(.own) .bubble:has-text("a long text a long")'), own: await wide('.message.own .bubble:has-text("own long")') }, { column: 728, others: 464, own: 480 })
    const style = await ben.page.locator('.message.own .bubble').last().evaluate((b) => {
      const { padding, borderTopLeftRadius, fontSize, lineHeight } = getComputedStyle(b)
      return { padding, radius: borderTopLeftRadius, fontSize, lineHeight }
    })
    assert.deepEqual(style, { padding: '5px 8px 6px', radius: '12px', fontSize: '16px', lineHeight: '21px' })
    await ben.context.close()
  })

  test('by keyboard: Tab leaves the list, Alt and an arrow open the next chat, and Enter on the open one goes to its field', async () => {
    const users = await server.users('mona', 'nell', 'otto') // nobody else writes to them meanwhile: their list keeps its order
    for (const from of ['mona', 'nell']) await server.sendAs(from, { user: 'otto', text: `of ${from}` })
    const otto = await (await Person.open(browser, users['otto'] ?? '')).ready()
    await otto.row('nell').click()
    await otto.message('of nell').waitFor()
    const { keyboard } = otto.page
    const at = (): Promise<string> => otto.page.evaluate(() => document.activeElement?.className ?? '')
    await otto.row('nell').focus()
    await keyboard.press('Tab')
    assert.match(await at(), /chat-title/)
    await otto.row('nell').focus()
    await keyboard.press('Enter')
    assert.match(await at(), /composer-field/)
    await otto.row('nell').focus()
    await keyboard.press('Alt+ArrowDown')
    await otto.message('of mona').waitFor()
    await otto.say('my last message')
    await otto.stored('my last message')
    for (const from of ['mona', 'nell']) await server.sendAs(from, { user: 'otto', text: `again of ${from}` }) // mona is below nell again
    await otto.page.waitForFunction(() => document.querySelector('.chat-row')?.textContent?.includes('again of nell'))
    await otto.field.focus()
    await keyboard.press('Alt+ArrowUp') // in the empty field too, where the arrow alone edits the last message
    await otto.message('again of nell').waitFor()
    assert.equal(await otto.page.locator('.intent').count(), 0)
    await keyboard.press('Alt+ArrowDown')
    await otto.message('my last message').waitFor()
    await otto.field.press('Shift+ArrowUp')
    assert.equal(await otto.page.locator('.intent').count(), 0)
    await otto.field.press('ArrowUp')
    await otto.page.locator('.intent', { hasText: 'Edit message' }).waitFor()
    await keyboard.press('Escape')
    await otto.page.getByRole('searchbox').fill('nobody')
    await otto.press('Clear')
    assert.equal(await otto.page.getByRole('searchbox').inputValue(), '')
    await otto.row('nell').waitFor()
    assert.equal(await otto.page.getByRole('searchbox').evaluate((f) => f === document.activeElement), true)
    await otto.context.close()
  })

  test('the menu of a chat opens over the chat, and not over the info beside it', async () => {
    const ben = await (await Person.open(browser, links['ben'] ?? '', { viewport: { width: 1400, height: 700 } })).ready()
    await ben.go('u/ann/info')
    const info = await ben.page.getByRole('complementary').boundingBox()
    const more = ben.page.locator('.chat-header').getByRole('button', { name: 'More' })
    for (const open of [() => more.click(), () => more.press('Enter')]) {
      await open()
      const menu = await ben.page.getByRole('menu').boundingBox()
      assert.ok(info && menu && menu.x > 400 && menu.x + menu.width <= info.x, `the menu is at ${JSON.stringify(menu)}, the info at ${JSON.stringify(info)}`)
      await ben.page.keyboard.press('Escape')
      await ben.page.getByRole('menu').waitFor({ state: 'detached' })
    }
    await ben.context.close()
  })

  test('what waits for the connection shows in the list; before the first connection nobody is said to have written nothing', async () => {
    const first = await Person.open(browser, 'about:blank')
    await first.page.routeWebSocket(/\/v1\/ws/, (ws) => void ws.close({ code: 4000 }))
    await first.page.goto(links['cleo'] ?? '')
    await first.ready()
    await first.go('u/ben')
    await first.field.waitFor()
    assert.equal(await first.page.locator('.beginning').count(), 0)
    await first.context.close()
    const cleo = await (await Person.open(browser, links['cleo'] ?? '')).ready()
    await cleo.go('u/ben')
    await cleo.say('hello')
    await cleo.stored('hello')
    await cleo.context.setOffline(true)
    await cleo.say('written in a tunnel')
    await cleo.row('فريد').getByText('written in a tunnel').waitFor()
    await cleo.row('فريد').getByRole('img', { name: 'On its way' }).waitFor()
    await cleo.context.setOffline(false)
    await cleo.row('فريد').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    await cleo.context.close()
  })

  test('a bubble keeps its width when the pointer comes, and names in another direction stand where the others do', async () => {
    const ann = await (await Person.open(browser, links['ann'] ?? '', { viewport: { width: 620, height: 700 } })).ready()
    await ann.page.goto(`${server.url}/#/ann/u/ben`)
    const bubble = ann.page.locator('.message .bubble').first()
    await bubble.waitFor()
    const widths: (number | undefined)[] = [(await bubble.boundingBox())?.width]
    await bubble.hover()
    await ann.page.locator('.bubble-tools .icon-button').first().waitFor()
    widths.push((await bubble.boundingBox())?.width)
    assert.equal(widths[1], widths[0])
    await bubble.click({ button: 'right' })
    await ann.page.getByRole('menuitem', { name: 'Forward' }).click()
    const name = ann.page.getByRole('dialog').locator('.row-text', { hasText: 'فريد' })
    assert.match(await name.evaluate((e) => getComputedStyle(e).textAlign), /left/)
    await ann.context.close()
  })
})
