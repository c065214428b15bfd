// The list of conversations, and what a person sets of them on one device for all.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Person, suiteMs } from './browser.js'
import { Shared } from './shared.js'

describe('conversations', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  async function set(p: Person, name: string, item: string): Promise<void> {
    await p.row(name).click({ button: 'right' })
    await p.page.getByRole('menuitem', { name: item, exact: true }).click()
  }

  const order = (p: Person): Promise<string[]> => p.page.locator('.chat-row .chat-row-name').allTextContents()

  test('pinned, muted, archived, marked as unread, read: what one device does the other one shows', async () => {
    const [user = '', ...peers] = await shared.users('lena', 'max', 'nora', 'otto')
    for (const peer of peers) await shared.server.sendAs(peer, { user, text: `hello from ${peer}` })
    const [max = '', nora = '', otto = ''] = peers
    const here = await shared.open(user)
    const there = await shared.open(user)
    for (const p of [here, there]) await p.row(max).getByText('1 unread message').waitFor({ state: 'attached' })
    assert.deepEqual(await order(here), [otto, nora, max])
    await set(here, max, 'Pin')
    await there.page.waitForFunction((name) => document.querySelector('.chat-row .chat-row-name')?.textContent === name, max)
    assert.deepEqual(await order(there), [max, otto, nora])
    await set(there, nora, 'Archive')
    await here.row(nora).waitFor({ state: 'detached' })
    await here.page.locator('.archive-row').click()
    await here.row(nora).waitFor()
    await here.press('Back')
    await set(here, otto, 'Mark as read')
    await there.row(otto).locator('.badge').waitFor({ state: 'detached' })
    await set(there, otto, 'Mark as unread')
    await here.row(otto).getByRole('img', { name: 'Marked as unread' }).waitFor()
    await here.row(otto).click()
    await there.row(otto).getByRole('img', { name: 'Marked as unread' }).waitFor({ state: 'detached' })
    await set(here, max, 'Mute')
    await here.page.getByRole('menuitem', { name: 'Always' }).click()
    await there.row(max).locator('.badge-muted').waitFor()
    await there.page.getByRole('searchbox').fill('nor') // the archive is found too
    await there.row(nora).click()
    await there.message(`hello from ${nora}`).waitFor()
    await here.page.locator('.archive-row .badge').waitFor({ state: 'detached' })
    await Promise.all([here.context.close(), there.context.close()])
  })

  for (const width of [390, 1000]) {
    test(`who has no conversation yet is told what to begin with, and people of one's groups are found by name, ${width} px wide`, async () => {
      const [user = '', known = '', stranger = ''] = await shared.users('anton', 'bela', 'cosma')
      const p = await shared.open(user, { options: { viewport: { width, height: 800 } } })
      await p.page.getByRole('heading', { name: 'Welcome' }).waitFor()
      await p.page.locator('.welcome').getByRole('button', { name: 'Find a person' }).click()
      assert.equal(await p.page.getByRole('dialog').evaluate((d) => getComputedStyle(d).textAlign), 'start') // and not that of the page from which it opened
      await p.press('Close', 'dialog')
      await p.page.locator('.welcome').getByRole('button', { name: 'My notes' }).click()
      await p.say('a note')
      await p.stored('a note')
      await p.page.goBack()
      await p.page.getByRole('heading', { name: 'Welcome' }).waitFor({ state: 'detached' })
      // Somebody of whom one knows a part of the name.
      await shared.server.admin('AdminService/CreateGroup', { title: 'Reading', members: [{ user }, { user: known }] })
      await p.row('Reading').waitFor()
      const search = p.page.getByRole('navigation').getByRole('searchbox')
      await search.fill(known.slice(1))
      await p.page.locator('.people-row', { hasText: known }).waitFor()
      await search.fill('')
      await p.press('New chat')
      const dialog = p.page.getByRole('dialog', { name: 'New chat' })
      await dialog.getByRole('button', { name: known }).waitFor()
      await dialog.getByRole('searchbox').fill(known.slice(1))
      await dialog.getByRole('searchbox').press('Enter')
      await p.page.getByRole('heading', { name: known, exact: true }).waitFor()
      await p.say('hello')
      await p.stored('hello')
      // Somebody else, by the whole user name.
      if (width === 390) await p.page.goBack()
      await p.press('New chat')
      await dialog.getByRole('searchbox').fill(stranger)
      await dialog.getByRole('button', { name: stranger }).click()
      await p.page.getByRole('heading', { name: stranger, exact: true }).waitFor()
      // And several at once.
      if (width === 390) await p.page.goBack()
      await p.press('New chat')
      await dialog.getByRole('button', { name: 'New group' }).click()
      await p.page.getByRole('dialog', { name: 'New group' }).getByRole('button', { name: known }).waitFor()
      await p.page.keyboard.press('Escape')
      await p.page.getByRole('dialog').waitFor({ state: 'detached' })
      await p.context.close()
    })
  }

  test('Escape closes what stands beside the chat or in its place, one thing at a time', async () => {
    const [user = '', peer = ''] = await shared.users('dora', 'emil')
    const p = await shared.open(user, { route: `u/${peer}/info` })
    const info = p.page.getByRole('complementary', { name: 'Profile' })
    await info.waitFor()
    await p.field.press('Escape')
    await info.waitFor({ state: 'detached' })
    assert.equal(await p.field.evaluate((f) => f === document.activeElement), true)
    await p.go(`u/${peer}/info`)
    await info.getByRole('button', { name: 'Block' }).press('Escape')
    await info.waitFor({ state: 'detached' })
    await p.go('devices')
    await p.page.keyboard.press('Escape')
    await p.page.getByRole('heading', { name: 'Settings' }).waitFor()
    await p.press('Edit the profile')
    await p.page.getByRole('dialog').waitFor()
    await p.page.keyboard.press('Escape')
    await p.page.getByRole('dialog').waitFor({ state: 'detached' })
    await p.page.getByRole('heading', { name: 'Settings' }).waitFor()
    await p.page.keyboard.press('Escape')
    await p.page.getByRole('heading', { name: 'Settings' }).waitFor({ state: 'detached' })
    await p.context.close()
  })

  test('reaction, pin, edit and recall of another device show here; a draft stays in its chat', async () => {
    const [user = '', peer = ''] = await shared.users('pia', 'rolf')
    await shared.server.sendAs(peer, { user, text: 'of the other one' })
    const [here, there] = await Promise.all([1, 2].map(() => shared.open(user, { route: `u/${peer}` }))) as [Person, Person]
    await there.say('my own')
    await here.stored('my own')
    await there.message('of the other one').locator('.bubble').click({ button: 'right' })
    await there.page.getByRole('menuitemcheckbox', { name: 'React with 🎉' }).click()
    await here.message('of the other one').locator('.reaction[aria-pressed="true"]', { hasText: '🎉' }).waitFor()
    await here.choose('of the other one', 'Who reacted')
    await here.page.getByRole('dialog').locator('.row', { hasText: user }).getByText('🎉').waitFor()
    await here.press('Close', 'dialog')
    await here.message('of the other one').locator('.reaction[aria-pressed="true"]', { hasText: '🎉' }).click() // takes it away
    await there.message('of the other one').locator('.reaction').waitFor({ state: 'detached' })
    // Any other emoji is behind the last button; one that is in the menu too is the same reaction.
    for (const [emoji, name] of [['⛵', 'sailboat'], ['🎉', 'party popper']] as const) {
      await here.message('of the other one').locator('.bubble').click({ button: 'right' })
      await here.page.getByRole('menuitem', { name: 'React with another emoji' }).click()
      await here.page.getByRole('dialog', { name: 'Emoji' }).getByRole('searchbox').fill(name)
      await here.page.getByRole('dialog', { name: 'Emoji' }).getByRole('button', { name, exact: true }).click()
      await here.page.locator('dialog').waitFor({ state: 'detached' })
      await there.message('of the other one').getByRole('button', { name: `${emoji}, 1 person`, exact: true }).waitFor()
      await here.message('of the other one').getByRole('button', { name: `${emoji}, 1 person`, exact: true }).click()
      await there.message('of the other one').locator('.reaction').waitFor({ state: 'detached' })
    }
    await there.choose('of the other one', 'Pin')
    await here.page.locator('.pin-bar', { hasText: 'of the other one' }).waitFor()
    const time = await here.message('of the other one').locator('time').textContent() ?? ''
    assert.match(time, /^\d+:\d\d [AP]M$/)
    await here.page.locator('.chat-header').getByRole('button', { name: 'More' }).click()
    await here.page.getByRole('menuitem', { name: 'Pinned messages' }).click()
    await here.page.getByRole('dialog').getByText(`, ${time}`).waitFor() // written as in the bubble
    await here.press('Close', 'dialog')
    await here.choose('of the other one', 'Unpin')
    await there.page.locator('.pin-bar').waitFor({ state: 'detached' })
    await here.field.fill('half a thought')
    await there.field.press('ArrowUp')
    await there.field.fill('my own, mended')
    await there.field.press('Enter')
    await here.message('my own, mended').getByText('edited', { exact: true }).waitFor()
    await there.recall('my own, mended')
    await here.message('You deleted this message').waitFor()
    await here.row(peer).getByText('You deleted this message').waitFor()
    assert.equal(await here.field.inputValue(), 'half a thought')
    // The draft stays, and the list shows it; Back and Forward go between the conversations.
    await here.go(`u/${user}`)
    await here.row(peer).getByText('Draft: half a thought').waitFor()
    assert.equal(await here.field.inputValue(), '')
    await here.page.goBack()
    await here.page.waitForFunction((text) => document.querySelector<HTMLTextAreaElement>('.composer-field')?.value === text, 'half a thought')
    await here.page.goForward()
    await here.page.getByRole('heading', { name: 'My notes', level: 1 }).waitFor()
    assert.equal(await here.field.inputValue(), '')
    // The line that a deleted message leaves is deleted for oneself.
    await there.choose('You deleted this message', 'Delete for me')
    await there.press('Delete for me', 'dialog')
    await here.page.goBack()
    await here.message('You deleted this message').waitFor({ state: 'detached' })
    await here.message('of the other one').waitFor()
    await Promise.all([here.context.close(), there.context.close()])
  })

  test('a message is forwarded with the name of who wrote it; what a blocked user writes does not come', async () => {
    const [sara, tom] = await shared.pair('sara', 'tom')
    const [una = ''] = await shared.users('una')
    const { conv } = await shared.server.admin('AdminService/CreateGroup', { title: 'Elsewhere', members: [{ user: sara.user, role: 'ROLE_OWNER' }, { user: una }] }) as { conv: string }
    await tom.say('worth telling')
    await sara.choose('worth telling', 'Forward')
    await sara.page.getByRole('dialog').getByRole('searchbox').fill('else')
    await sara.page.getByRole('dialog').locator('.row', { hasText: 'Elsewhere' }).click()
    await sara.page.waitForFunction((c) => location.hash.includes(c), conv)
    await sara.message('worth telling').getByText(`Forwarded from ${tom.user}`).waitFor()
    await sara.stored('worth telling')
    await sara.go(`u/${tom.user}`)
    await sara.choose('worth telling', 'Forward')
    await sara.page.getByRole('dialog').getByRole('searchbox').fill('note')
    await sara.page.getByRole('dialog').locator('.row', { hasText: 'My notes' }).click() // in which nothing is yet
    await sara.page.getByRole('heading', { name: 'My notes', level: 1 }).waitFor()
    await sara.stored('worth telling')
    await sara.go(`u/${tom.user}`)
    await sara.choose('worth telling', 'Forward')
    await sara.page.getByRole('dialog').locator('.row', { hasText: una }).click() // a member of a group, to whom nobody has written yet
    await sara.page.getByRole('heading', { name: una, level: 1 }).waitFor()
    await sara.stored('worth telling')
    await sara.go(`u/${tom.user}/info`)
    await sara.press('Block')
    await sara.page.getByText(`You have blocked ${tom.user}. Their messages do not reach you.`).waitFor() // in the chat too
    await tom.say('do you hear me')
    await tom.message('do you hear me').getByRole('img', { name: /Sent|Not sent/ }).waitFor()
    await sara.go('settings')
    await sara.page.locator('.blocked', { hasText: tom.user }).getByRole('button', { name: 'Unblock' }).click()
    await sara.page.locator('.blocked').waitFor({ state: 'detached' })
    await sara.go(`u/${tom.user}`)
    await tom.say('and now')
    await sara.message('and now').waitFor()
    assert.equal(await sara.message('do you hear me').count(), 0)
    await Promise.all([sara.context.close(), tom.context.close()])
  })

  test('a search for a word of a message says that only names are searched', async () => {
    const [user = '', peer = ''] = await shared.users('vito', 'wilma')
    await shared.server.sendAs(peer, { user, text: 'lighthouse keeper' })
    for (const [locale, text] of [['en-US', 'Only names are searched here, not messages.'], ['zh-CN', '这里只搜索名称，不搜索消息内容。']] as const) {
      const p = await shared.open(user, { options: { locale } })
      await p.row(peer).waitFor()
      for (const words of ['lighthouse', 'lighthouse keeper']) { // one could be a user name
        await p.page.getByRole('searchbox').fill(words)
        await p.page.getByText(text).waitFor()
      }
      await p.context.close()
    }
  })

  test('the language is switched and kept; no text is left in the other one', async () => {
    const [user = ''] = await shared.users('una')
    const p = await shared.open(user, { options: { locale: 'zh-CN' } })
    await p.page.getByRole('searchbox', { name: '搜索或输入 @用户名' }).waitFor()
    await p.go('settings')
    await p.page.getByRole('radio', { name: 'English' }).check()
    await p.page.getByRole('heading', { name: 'Settings' }).waitFor()
    assert.equal(await p.page.evaluate(() => document.documentElement.lang), 'en')
    await p.page.reload()
    await p.page.getByRole('heading', { name: 'Settings' }).waitFor()
    await p.page.getByRole('radio', { name: '中文' }).check()
    await p.page.getByRole('heading', { name: '设置' }).waitFor()
    for (const route of ['settings', 'devices', `u/${user}/info`]) {
      await p.go(route)
      const texts = await p.page.evaluate(() => document.body.innerText.split('\n').filter((line) => /[A-Za-z]{3}/.test(line) && !/[\u4e00-\u9fff]/.test(line)))
      assert.deepEqual(texts.filter((text) => !text.includes(user) && !/^English$|petrel/.test(text)), [], route)
    }
    await p.context.close()
  })
})
