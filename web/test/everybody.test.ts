// People with a keyboard alone, a screen reader, large letters, another language, or no wish for motion.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { drawn, Person, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('everybody', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  test('messages are items of a list: arrows go from one to the next, Enter opens the menu of one, and one of all is a stop of Tab', async () => {
    const [user = '', peer = ''] = await shared.users('kaya', 'liam')
    for (const text of ['one', 'two', 'three']) await shared.server.sendAs(peer, { user, text })
    const { page, context } = await shared.open(user, { route: `u/${peer}` })
    const stops = page.locator('.timeline li[tabindex="0"]')
    await stops.filter({ hasText: 'three' }).waitFor()
    assert.deepEqual([await page.locator('[role="log"]').count(), await stops.count()], [0, 1])
    assert.equal(await stops.evaluate((e) => e.parentElement?.tagName), 'OL')
    await stops.focus()
    const at = (): Promise<string> => page.evaluate(() => document.activeElement?.querySelector('.body')?.textContent ?? document.activeElement?.className ?? '')
    await page.keyboard.press('ArrowUp')
    assert.equal(await at(), 'two')
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('End')
    await page.keyboard.press('ArrowUp')
    assert.equal(await at(), 'two')
    assert.equal(await stops.count(), 1)
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Reply' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('menu').waitFor({ state: 'detached' })
    assert.equal(await at(), 'two')
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Reply' }).press('Enter')
    await page.locator('.intent', { hasText: 'two' }).waitFor()
    assert.match(await at(), /composer-field/)
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+k')
    assert.equal(await page.getByRole('searchbox').evaluate((f) => f === document.activeElement), true)
    await context.close()
  })

  test('the messages are one stop of Tab, the newest; the right arrow goes to links, mentions and quotes inside of one, and all arrows lead on from there', async () => {
    const { conv, users: [user = '', peer = ''] } = await shared.group('Keys', 'kurt', 'lena')
    for (let i = 0; i < 60; i++) await shared.server.sendAs(peer, { conv, text: `before ${i}` })
    await shared.server.sendAs(peer, { conv, text: Array.from({ length: 40 }, (_, i) => `https://example.org/${i}`).join(' ') })
    await shared.server.sendAs(peer, { conv, text: `@${user} see https://example.org/newest`, rel: { mentions: [user], replyTo: '3' } }) // the first two entries are of the group, and before 0
    const p = await shared.open(user, { route: `c/${conv}` })
    const { keyboard } = p.page
    const at = (): Promise<string> => p.page.evaluate(() => {
      const e = document.activeElement
      return e?.matches('[data-key]') ? `row ${e.querySelector('.body')?.textContent ?? ''}` : e?.matches('.message *, .composer *') ? `${e.closest('.composer') ? 'composer' : ''}${e.className || e.tagName}` : e?.tagName ?? ''
    })
    const newest = `row @${user} see https://example.org/newest`
    const way = p.page.getByRole('button', { name: 'To the newest message' })
    await way.press('Enter')
    await way.waitFor({ state: 'detached' })
    assert.equal(await at(), newest) // the button is gone, and the focus is where it led
    await p.field.focus()
    await keyboard.press('Shift+Tab') // the button for emojis
    await keyboard.press('Shift+Tab')
    assert.equal(await at(), newest)
    const walked: string[] = []
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'Escape', 'ArrowRight', 'ArrowUp', 'ArrowRight', 'ArrowDown']) {
      await keyboard.press(key)
      walked.push((await at()).replace(/row https.*/, 'row of links'))
    }
    assert.deepEqual(walked, ['quote', 'mention mention-me', 'A', 'A', 'mention mention-me', newest, 'quote', 'row of links', 'A', newest])
    await keyboard.press('ArrowUp')
    await keyboard.press('Tab')
    assert.match(await at(), /^composer/)
    await shared.server.sendAs(peer, { conv, text: 'the newest of all' })
    await p.message('the newest of all').waitFor()
    await keyboard.press('Shift+Tab')
    assert.equal(await at(), 'row the newest of all')
    await keyboard.press('ArrowUp')
    await keyboard.press('Enter')
    const menu = p.page.getByRole('menu')
    const item = (): Promise<string> => p.page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '')
    const walkedInMenu: string[] = []
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowLeft', 'ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowRight', 'ArrowUp']) {
      await keyboard.press(key)
      walkedInMenu.push(await item())
    }
    assert.deepEqual(walkedInMenu, ['React with ❤️', 'React with 😂', 'React with ❤️', 'Reply', 'Thread', 'Reply', 'Reply', 'React with 👍']) // the reactions are one line
    await keyboard.press('Escape')
    await menu.waitFor({ state: 'detached' })
    await keyboard.press('Shift+F10')
    await menu.waitFor()
    await keyboard.press('Escape')
    await menu.waitFor({ state: 'detached' })
    await keyboard.press('ArrowRight')
    await keyboard.press('Enter') // follows the quote
    await p.page.locator('.message.lit').waitFor()
    assert.equal(await at(), 'row before 1')
    await p.context.close()
  })

  test('what others write is announced once and politely, and what is loaded or written here is not', async () => {
    const [user = '', peer = ''] = await shared.users('mara', 'noel')
    for (let i = 0; i < 60; i++) await shared.server.sendAs(peer, { user, text: `before ${i}` })
    const p = await shared.open(user, { route: `u/${peer}` })
    await p.message('before 0').or(p.message('before 59')).first().waitFor()
    await p.page.evaluate(() => {
      const said: string[] = []
      const live = [...document.querySelectorAll('[aria-live]')]
      new MutationObserver(() => said.push(...live.map((e) => e.textContent ?? '').filter((text) => text !== ''))).observe(document.body, { subtree: true, childList: true, characterData: true })
      Object.assign(globalThis, { said, polite: live.every((e) => e.getAttribute('aria-live') === 'polite') })
    })
    await p.page.locator('.timeline-view').evaluate((v) => v.scrollTo(0, 0))
    await p.message('before 0').waitFor()
    await p.say('of my own')
    await p.stored('of my own')
    await shared.server.sendAs(peer, { user, text: '**hello** you' })
    await p.page.locator('[aria-live]', { hasText: `${peer}: hello you` }).waitFor({ state: 'attached' })
    const [said, polite] = await p.page.evaluate(() => [[...new Set((globalThis as unknown as { said: string[] }).said)], (globalThis as unknown as { polite: boolean }).polite] as const)
    assert.deepEqual(said, [`${peer}: hello you`])
    assert.equal(polite, true)
    await p.context.close()
  })

  test('a finger that rests on a message opens its menu and selects nothing, though this browser sends no contextmenu; one that moves does not', async () => {
    const [user = '', peer = ''] = await shared.users('tove', 'ulf')
    for (const text of ['rest here', 'a second one']) await shared.server.sendAs(peer, { user, text })
    const p = await shared.open(user, { route: `u/${peer}`, options: { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true } })
    const devtools = await p.context.newCDPSession(p.page)
    const { x = 0, y = 0 } = await p.message('rest here').locator('.bubble').boundingBox() ?? {}
    const touch = (type: 'touchStart' | 'touchMove' | 'touchEnd', dy = 0): Promise<unknown> => devtools.send('Input.dispatchTouchEvent', { type, touchPoints: type === 'touchEnd' ? [] : [{ x: x + 20, y: y + 15 + dy }] })
    const menu = p.page.getByRole('menu')
    await p.page.clock.install()
    await touch('touchStart')
    await touch('touchMove', 20)
    await p.page.clock.runFor(700)
    await touch('touchEnd')
    assert.equal(await menu.count(), 0)
    await touch('touchStart')
    await touch('touchMove', 2)
    await menu.waitFor()
    await p.page.evaluate(() => addEventListener('pointerup', (e) => { document.title = `lifted on ${(e.target as Element).role}` }, { once: true }))
    await touch('touchEnd')
    await p.page.waitForFunction(() => document.title.startsWith('lifted on'))
    assert.equal(await p.page.title(), 'lifted on menu') // elsewhere it would close the menu in some browsers
    await drawn(p.page) // the menu stays
    assert.deepEqual([await menu.count(), await p.page.evaluate(() => getSelection()?.toString())], [1, ''])
    await p.page.getByRole('menuitem', { name: 'Reply' }).tap()
    await p.page.locator('.intent', { hasText: 'rest here' }).waitFor()
    assert.equal(await menu.count(), 0)
    await p.context.close()
  })

  test('on a phone Enter begins a new line, and the button sends; a keyboard sends with Ctrl and Enter', async () => {
    const [user = ''] = await shared.users('ugo')
    const p = await shared.open(user, { route: `u/${user}`, options: { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true } })
    assert.equal(await p.field.getAttribute('enterkeyhint'), 'enter')
    await p.field.tap()
    await p.field.pressSequentially('one')
    await p.field.press('Enter')
    await p.field.pressSequentially('two')
    assert.equal(await p.field.inputValue(), 'one\ntwo')
    await p.page.getByRole('button', { name: 'Send' }).tap()
    await p.stored('one\ntwo')
    await p.field.pressSequentially('three')
    await p.field.press('Control+Enter')
    await p.stored('three')
    await p.context.close()
  })

  test('the theme is that of the system, or the one that the person chooses, also after a reload', async () => {
    const [user = ''] = await shared.users('odin')
    const { page, context } = await shared.open(user, { route: 'settings', options: { colorScheme: 'dark' } })
    const papers = { light: 'rgb(255, 255, 255)', dark: 'rgb(24, 34, 45)' }
    const shows = (theme: 'light' | 'dark'): Promise<unknown> => page.waitForFunction((paper) => getComputedStyle(document.body).backgroundColor === paper, papers[theme])
    await shows('dark')
    await page.emulateMedia({ colorScheme: 'light' })
    await shows('light')
    await page.getByRole('radio', { name: 'Dark' }).check()
    await shows('dark')
    await page.reload()
    await page.getByRole('radio', { name: 'Dark', checked: true }).waitFor()
    await shows('dark')
    await page.getByRole('radio', { name: 'Light' }).check()
    await page.emulateMedia({ colorScheme: 'dark' })
    await shows('light')
    await page.getByRole('radio', { name: 'System' }).check()
    await shows('dark')
    await context.close()
  })

  test('who wants no motion sees none', async () => {
    const [user = ''] = await shared.users('pina')
    const longest = async (reducedMotion: 'reduce' | 'no-preference'): Promise<number> => {
      const { page, context } = await shared.open(user, { route: 'settings', options: { reducedMotion } })
      await page.evaluate(() => {
        const seen = { ms: 0 }
        const look = (): void => {
          for (const a of document.getAnimations()) seen.ms = Math.max(seen.ms, Number(a.effect?.getComputedTiming().duration ?? 0))
          requestAnimationFrame(look)
        }
        look()
        Object.assign(globalThis, { seen })
      })
      await page.getByRole('switch', { name: 'Sound' }).click()
      await page.getByRole('switch', { name: 'Sound', checked: false }).waitFor()
      const ms = (): Promise<number> => page.evaluate(() => (globalThis as unknown as { seen: { ms: number } }).seen.ms)
      if (reducedMotion === 'no-preference') await until('something moves', async () => await ms() > 50)
      else await drawn(page)
      const most = await ms()
      await context.close()
      return most
    }
    assert.ok(await longest('no-preference') > 50)
    assert.ok(await longest('reduce') < 1)
  })

  test('at 200 % a laptop has room for messages and the field, and long names leave room for the time', async () => {
    const [user = '', peer = ''] = await shared.users('rosa', 'silvio')
    const name = 'ThisNameHasNoBlankInItAndIsAsLongAsTheServerLetsAnybodyHaveOne12'
    const answer = await fetch(`${shared.server.url}/petrel.v1.AccountService/UpdateAccount`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${shared.server.tokens[peer] ?? ''}` }, body: JSON.stringify({ displayName: name }),
    })
    assert.ok(answer.ok, await answer.text())
    for (let i = 0; i < 20; i++) await shared.server.sendAs(peer, { user, text: `line ${i}` })
    const p = await shared.open(user, { route: `u/${peer}`, options: { viewport: { width: 640, height: 360 }, deviceScaleFactor: 2 } })
    await p.page.getByRole('heading', { name }).waitFor()
    const heightOf = async (what: Locator): Promise<number> => {
      const box = await what.boundingBox()
      assert.ok(box && box.x >= 0 && box.y >= 0 && box.x + box.width <= 640 && box.y + box.height <= 360, `${String(what)}: ${JSON.stringify(box)}`)
      return box.height
    }
    for (const what of [p.field, p.page.locator('.chat-header h1'), p.page.locator('.chat-row time').first()]) await heightOf(what)
    assert.ok(await heightOf(p.page.locator('.timeline-view')) >= 200)
    await p.context.close()
  })

  test('two people chat in Chinese, from signing up to what the ticks say', async () => {
    const [hua, ming] = await Promise.all(['hua', 'ming'].map(async (name) => {
      const user = shared.name(name)
      const p = await Person.open(shared.browser, shared.server.url, { locale: 'zh-CN' })
      await p.press('注册新账号')
      await p.page.getByLabel('用户名').fill(user)
      await p.page.getByLabel('密码').fill('这是一个很长的密码')
      await p.press('注册')
      return p.ready()
    })) as [Person, Person]
    await hua.page.getByRole('searchbox').fill(`@${ming.user}`)
    await hua.page.locator('.people-row').click()
    await hua.say('你好，小明')
    await ming.row(hua.user).getByText('1 条未读消息').waitFor({ state: 'attached' })
    await ming.row(hua.user).click()
    await hua.message('你好，小明').getByRole('img', { name: '已读' }).waitFor()
    await ming.page.goto(`${shared.server.url}/#/${ming.user}/settings`)
    await hua.say('在吗？')
    await hua.message('在吗？').getByRole('img', { name: '已送达' }).waitFor()
    assert.equal(await hua.page.evaluate(() => document.documentElement.lang), 'zh-CN')
    await Promise.all([hua.context.close(), ming.context.close()])
  })
})
