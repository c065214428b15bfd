// People use the web chat, in Chromium, against the real binary.
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { drawn, Person, profile, suiteMs, until } from './browser.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('the web chat', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()
  let server: Server
  let browser: Browser
  let links: Readonly<Record<string, string>>

  before(async () => {
    ({ server, browser } = shared)
    links = await server.users('alice', 'bob', 'carol', 'dave', 'erin', 'frank', 'gina', 'hank', 'ivy', 'john', 'kim', 'lou')
  })

  /** Opens the direct conversation of a user with another one. */
  async function at(user: string, peer: string): Promise<Person> {
    const person = await (await Person.open(browser, links[user] ?? '')).ready()
    await person.page.goto(`${server.url}/#/${user}/u/${peer}`)
    await person.field.waitFor()
    return person
  }

  test('two people sign up, find each other and chat; the ticks say how far a message is', async () => {
    const [ann, ben] = await Promise.all(['ann', 'ben'].map(async (user) => {
      const p = await Person.open(browser, server.url)
      await p.page.getByRole('button', { name: 'Make a new account' }).click()
      await p.page.getByLabel('User name').fill(user)
      await p.page.getByLabel('Password').fill(`${user} has a long password`)
      await p.page.getByRole('button', { name: 'Sign up' }).click()
      return p.ready()
    })) as [Person, Person]
    await ann.page.getByRole('searchbox').fill('@ben')
    await ann.page.locator('.people-row').click()
    await ann.say('hello ben')
    await ann.message('hello ben').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    await ben.row('ann').getByText('1 unread message').waitFor({ state: 'attached' })
    const colour = (fate: string): Promise<string> => ann.row('ben').getByRole('img', { name: fate }).evaluate((e) => getComputedStyle(e).color)
    await ben.row('ann').click()
    await ann.message('hello ben').getByRole('img', { name: 'Read' }).waitFor() // before that, a stranger sees nothing of him
    await ben.page.goto(`${server.url}/#/ben/settings`)
    await ann.say('how are you?')
    await ann.message('how are you?').getByRole('img', { name: 'Delivered' }).waitFor()
    const delivered = await colour('Delivered')
    await ben.page.goto(`${server.url}/#/ben/u/ann`)
    await ann.message('how are you?').getByRole('img', { name: 'Read' }).waitFor()
    assert.notEqual(await colour('Read'), delivered) // in the list too, where the row is selected
    await ben.say('hello ann')
    await ann.message('hello ann').waitFor()
    assert.equal(await ben.row('ann').locator('.badge').count(), 0)
    // It stays logged in over a reload, and logs out with nothing left.
    await ann.page.reload()
    await ann.message('hello ben').waitFor()
    await ann.page.goto(`${server.url}/#/ann/settings`)
    await ann.page.getByRole('button', { name: 'Log out' }).click()
    await ann.page.getByRole('dialog').getByRole('button', { name: 'Log out' }).click()
    await ann.page.getByRole('button', { name: 'Log in' }).waitFor()
    assert.deepEqual(await ann.page.evaluate(async () => [Object.keys(localStorage).filter((k) => k.includes('ann')), (await indexedDB.databases()).map((d) => d.name).filter((n) => n?.startsWith('petrel:'))]), [[], []])
    await Promise.all([ann.context.close(), ben.context.close()])
  })

  test('reply, edit, reaction, pin and recall reach the other one', async () => {
    const [alice, bob] = await Promise.all([at('alice', 'bob'), at('bob', 'alice')])
    await alice.say('first')
    await bob.message('first').waitFor()
    await bob.field.pressSequentially('hm')
    await alice.page.locator('.chat-subtitle', { hasText: 'typing' }).waitFor()
    await bob.field.fill('')
    await bob.choose('first', 'Reply')
    await bob.say('an answer')
    await alice.message('an answer').locator('.quote', { hasText: 'first' }).waitFor()
    await bob.field.press('ArrowUp') // edits the last own message
    await bob.has('an answer')
    await bob.say('a better answer')
    await alice.message('a better answer').getByText('edited').waitFor()
    await alice.message('a better answer').locator('.bubble').click({ button: 'right' })
    await alice.page.getByRole('menuitemcheckbox', { name: 'React with 👍' }).click()
    await bob.message('a better answer').getByRole('button', { name: '👍, 1 person' }).click()
    await alice.message('a better answer').getByRole('button', { name: '👍, 2 people' }).waitFor()
    await alice.page.locator('.chat-subtitle', { hasText: 'online' }).waitFor()
    await alice.choose('first', 'Pin')
    await bob.page.locator('.pin-bar', { hasText: 'first' }).waitFor()
    await alice.recall('first')
    await bob.page.getByText('Message deleted').first().waitFor()
    await bob.message('a better answer').locator('.quote', { hasText: 'Message deleted' }).waitFor()
    await alice.choose('a better answer', 'Forward')
    assert.equal(await alice.message('first').count(), 0)
    await Promise.all([alice.context.close(), bob.context.close()])
  })

  test('a press outside of the emojis closes them and leaves the field alone, Escape goes back to it', async () => {
    const [user = ''] = await shared.users('yara')
    const yara = await shared.open(user, { route: `u/${user}` })
    const emoji = yara.page.getByRole('dialog', { name: 'Emoji' })
    await yara.press('Emoji')
    await emoji.waitFor()
    await yara.field.evaluate((f) => f.addEventListener('focus', () => f.setAttribute('data-focused', '')))
    await yara.page.locator('.timeline-view').click({ position: { x: 5, y: 5 } })
    await emoji.waitFor({ state: 'detached' })
    assert.equal(await yara.field.getAttribute('data-focused'), null)
    await yara.press('Emoji')
    const search = emoji.getByRole('searchbox')
    await search.fill('shaking face')
    await emoji.getByRole('button', { name: 'shaking face' }).waitFor()
    await search.fill('bags under eyes') // of Emoji 16: many fonts have nothing there
    await emoji.getByText('Nothing found').waitFor()
    await search.fill('')
    await search.press('Escape')
    await emoji.waitFor({ state: 'detached' })
    assert.equal(await yara.field.evaluate((f) => f === document.activeElement), true)
    // Several are chosen one after another. Then one Escape in the field closes them, and so does a click there, a letter or a message that is sent.
    const endings: Readonly<Record<string, () => Promise<void>>> = {
      escape: () => yara.field.press('Escape'), click: () => yara.field.click(), letter: () => yara.field.press('a'), enter: () => yara.field.press('Enter'),
      elsewhere: () => yara.field.press('Control+k'), button: () => yara.page.getByRole('button', { name: 'Emoji' }).press('Escape'),
    }
    for (const [what, end] of Object.entries(endings)) {
      await yara.field.fill('')
      await yara.press('Emoji')
      for (const i of [0, 1]) await emoji.locator('.emoji').nth(i).click()
      assert.equal(await yara.field.evaluate((f) => f === document.activeElement), true)
      await end()
      await emoji.waitFor({ state: 'detached' }).catch((why: unknown) => assert.fail(`${what}: ${String(why)}`))
    }
    // One is put where the person writes; with a colon they need no picker.
    await yara.field.fill('to  you')
    await yara.field.evaluate((f) => (f as HTMLTextAreaElement).setSelectionRange(3, 3))
    await yara.press('Emoji')
    await search.fill('sailboat')
    await emoji.getByRole('button', { name: 'sailboat' }).click()
    assert.equal(await yara.field.inputValue(), 'to ⛵️ you')
    await yara.field.press('End')
    await yara.field.pressSequentially(' :anch')
    await yara.page.getByRole('option', { name: 'anchor' }).first().waitFor()
    await yara.field.press('Enter')
    assert.equal(await yara.field.inputValue(), 'to ⛵️ you ⚓️ ')
    // A whole name becomes its emoji when the second colon is typed, and is there again when that is undone; not in code.
    await yara.field.fill('')
    await yara.field.pressSequentially('so :smile')
    assert.match(await yara.page.getByRole('option').first().textContent() ?? '', /^😄/)
    await yara.field.press(':')
    await yara.page.waitForFunction((f) => (f as HTMLTextAreaElement).value === 'so 😄', await yara.field.elementHandle())
    await yara.field.press('Control+z')
    assert.match(await yara.field.inputValue(), /:smile/)
    await yara.field.fill('')
    await yara.field.pressSequentially('`:smile:` 12:30:45 :nosuch: ')
    assert.equal(await yara.field.inputValue(), '`:smile:` 12:30:45 :nosuch: ')
    // Enter in the search takes the first one.
    await yara.press('Emoji')
    await search.fill('tada')
    await emoji.getByRole('button', { name: 'party popper' }).waitFor()
    await search.press('Enter')
    assert.equal(await yara.field.inputValue(), '`:smile:` 12:30:45 :nosuch: 🎉')
    await yara.context.close()
  })

  test('the field grows with its lines and scrolls from then on; a long text goes whole, and one that is too long goes back into the field', async () => {
    const [user = ''] = await shared.users('walt')
    const context = await profile(shared.browser)
    await context.addInitScript(() => { // a page that does not say the limit, as those of others
      new MutationObserver(() => document.querySelector('meta[name="petrel-body-bytes"]')?.remove()).observe(document, { childList: true, subtree: true })
    })
    const p = await shared.open(user, { route: `u/${user}`, context })
    const height = async (): Promise<number> => (await p.field.boundingBox())?.height ?? 0
    const one = await height()
    await p.field.pressSequentially('first line')
    await p.field.press('Shift+Enter')
    await p.field.pressSequentially('second line')
    assert.ok(await height() > one + 15)
    const pasted = Array.from({ length: 800 }, (_, i) => `line ${i} of a text that somebody has pasted`).join('\n') // 34 KB
    await p.field.press('Shift+Enter')
    await p.page.evaluate((text) => document.execCommand('insertText', false, text), pasted) // as a paste does
    assert.ok(await height() < 400)
    await p.field.press('Enter')
    await p.page.getByRole('img', { name: /Sent|Read/ }).first().waitFor()
    await p.press('Show more')
    await p.page.locator('.message .body', { hasText: 'line 799 of a text' }).waitFor()
    assert.equal((await p.texts())[0], `first line\nsecond line\n${pasted}Show less`)
    const tooLong = 'word '.repeat(12_000).trim()
    await p.field.fill(tooLong)
    await p.field.press('Enter')
    await p.page.getByText('The message is too long.').waitFor()
    await p.press('Edit')
    await p.page.getByText('The message is too long.').waitFor({ state: 'detached' })
    assert.equal(await p.field.inputValue(), tooLong)
    await p.context.close()
  })

  test('a picture that is pasted or dropped is not sent, and the page says so; text that comes with one is taken', async () => {
    const [user = ''] = await shared.users('paula')
    for (const [locale, text, event, where] of [['en-US', 'Pictures and files cannot be sent yet.', 'paste', '.composer-field'], ['zh-CN', '暂时还不能发送图片和文件。', 'drop', '.timeline-view']] as const) {
      const p = await shared.open(user, { route: `u/${user}`, options: { locale } })
      /** Gives an element a picture, with a text or without. Returns whether the browser would do something with it. */
      const give = (what: 'paste' | 'drop' | 'dragover', selector: string, words = ''): Promise<boolean> => p.page.locator(selector).evaluate((e, [type, also]) => {
        const data = new DataTransfer()
        data.items.add(new File(['picture'], 'picture.png', { type: 'image/png' }))
        if (also) data.setData('text/plain', also)
        const how = { bubbles: true, cancelable: true }
        return e.dispatchEvent(type === 'paste' ? new ClipboardEvent(type, { ...how, clipboardData: data }) : new DragEvent(type, { ...how, dataTransfer: data }))
      }, [what, words] as const)
      const told = p.page.getByRole('status').getByText(text)
      assert.equal(await give('paste', '.composer-field', 'cells of a table'), true)
      assert.equal(await give('dragover', '.timeline-view'), false)
      await drawn(p.page)
      assert.equal(await told.count(), 0)
      assert.equal(await give(event, where), false)
      await told.waitFor()
      assert.deepEqual([await p.field.inputValue(), await p.texts()], ['', []])
      await p.context.close()
    }
  })

  test('what others write is text, and a link opens in a tab of its own that knows nothing of this one', async () => {
    const [user = '', peer = ''] = await shared.users('xara', 'yves')
    const text = '<img src=x onerror="document.title=1"> [click](javascript:alert(1)) <b>bold</b> https://chat.test/a_(b).'
    await shared.server.sendAs(peer, { user, text })
    const p = await shared.open(user, { route: `u/${peer}` })
    const body = p.page.locator('.message .body')
    await body.waitFor()
    assert.deepEqual([await body.textContent(), await body.locator('img, b').count()], [text, 0])
    const link = body.locator('a')
    assert.deepEqual([await link.count(), await link.getAttribute('href')], [1, 'https://chat.test/a_(b)'])
    await p.context.route('https://chat.test/**', (route) => route.fulfill({ contentType: 'text/html', body: '<p>elsewhere' }))
    const [other] = await Promise.all([p.context.waitForEvent('page'), link.click()])
    await other.waitForLoadState()
    assert.deepEqual(await other.evaluate(() => [opener, document.referrer]), [null, ''])
    await p.context.close()
  })

  test('after a dialog the focus is where it was', async () => {
    const [user = ''] = await shared.users('zoe')
    const zoe = await shared.open(user, { route: 'settings' })
    const button = zoe.page.getByRole('button', { name: 'Edit the profile' })
    const focused = (): Promise<boolean> => button.evaluate((b) => b === document.activeElement)
    const dialog = zoe.page.getByRole('dialog')
    for (const close of [() => zoe.page.keyboard.press('Escape'), () => zoe.press('Close', 'dialog')]) {
      await button.focus()
      await zoe.page.keyboard.press('Enter')
      await dialog.waitFor()
      assert.equal(await focused(), false)
      await close()
      await dialog.waitFor({ state: 'detached' })
      assert.equal(await focused(), true)
    }
    await zoe.context.close()
  })

  test('a group: created, mentioned in, renamed, left behind by who was removed', async () => {
    const [carol, dave] = await Promise.all([at('carol', 'dave'), at('dave', 'carol')])
    await carol.say('so that we know each other')
    await carol.page.getByRole('button', { name: 'Menu' }).click()
    await carol.page.getByRole('menuitem', { name: 'New group' }).click()
    await carol.page.getByLabel('Name of the group').fill('Boat ⛵')
    await carol.page.getByRole('dialog').locator('.row', { hasText: 'dave' }).click()
    await carol.page.getByLabel('Add by user name').fill('erin')
    await carol.press('Look up', 'dialog')
    await carol.page.locator('.chip', { hasText: 'erin' }).waitFor()
    await carol.page.getByRole('button', { name: 'Create' }).click()
    await dave.row('Boat ⛵').waitFor()
    await carol.page.getByText('3 members').waitFor()
    await carol.field.pressSequentially('hi @da')
    await carol.page.getByRole('option', { name: 'dave' }).waitFor()
    await carol.field.press('Enter') // takes the offer, and sends nothing
    assert.equal(await carol.field.inputValue(), 'hi @dave ')
    await carol.field.press('Enter')
    await dave.row('Boat ⛵').getByRole('img', { name: '1 unread mention of you' }).waitFor()
    await dave.row('Boat ⛵').click()
    await dave.page.locator('.mention', { hasText: '@dave' }).waitFor()
    await carol.message('hi @dave').getByRole('img', { name: 'Read' }).waitFor()
    await carol.page.locator('.chat-title').click()
    await carol.page.getByRole('complementary').getByRole('button', { name: 'Rename' }).click()
    await carol.page.getByLabel('Name of the group').fill('Big boat')
    await carol.page.getByRole('button', { name: 'Save' }).click()
    await dave.page.getByRole('heading', { name: 'Big boat' }).waitFor()
    await carol.page.getByRole('complementary').locator('.row', { hasText: '@dave' }).click()
    await carol.page.getByRole('menuitem', { name: 'Remove from the group' }).click()
    await carol.press('Remove from the group', 'dialog')
    await dave.page.getByText('You are not a member of this group any more.').waitFor()
    await dave.message('hi @dave').waitFor() // what was there can still be read
    await Promise.all([carol.context.close(), dave.context.close()])
  })

  test('what is written right before a reload is sent, or is still in the field', async () => {
    const ivy = await at('ivy', 'john')
    await ivy.say('before')
    await ivy.message('before').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    for (const text of ['one', 'two', 'three']) {
      await ivy.field.fill(text)
      await ivy.page.keyboard.press('Enter')
      await ivy.page.reload()
      await ivy.message('before').waitFor()
      await ivy.page.waitForFunction((t) => [...document.querySelectorAll('.message .body')].some((b) => b.textContent === t) || document.querySelector('textarea')?.value === t, text)
      await ivy.field.fill('')
    }
    await ivy.context.close()
  })

  test('a new name of a friend is seen in their open chat', async () => {
    const [kim, lou] = await Promise.all([at('kim', 'lou'), at('lou', 'kim')])
    await kim.say('who are you')
    await lou.message('who are you').waitFor()
    await lou.go('settings')
    await lou.press('Edit the profile')
    await lou.page.getByLabel('Name', { exact: true }).fill('Lou the Second')
    await lou.press('Save', 'dialog')
    await kim.page.locator('.chat-header').getByText('Lou the Second').waitFor()
    await Promise.all([kim.context.close(), lou.context.close()])
  })

  test('a reload in the middle of a send loses and doubles nothing, and a draft is still there', async () => {
    const gina = await at('gina', 'hank')
    await gina.say('before')
    await gina.message('before').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    await gina.context.setOffline(true)
    await gina.say('in the middle')
    await gina.field.fill('a draft')
    await gina.message('in the middle').waitFor()
    const cached = (): Promise<number> => gina.page.evaluate(async () => (await (await caches.open((await caches.keys())[0] ?? '')).keys()).length)
    await until('the worker has what the page needs', async () => await cached() > 3)
    await gina.page.reload() // without a network: the page comes from the worker, the messages from the store
    await gina.message('before').waitFor()
    await gina.message('in the middle').getByRole('img', { name: 'On its way' }).waitFor()
    assert.equal(await gina.field.inputValue(), 'a draft')
    await gina.context.setOffline(false)
    await gina.message('in the middle').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    const hank = await at('hank', 'gina')
    await hank.message('in the middle').waitFor()
    assert.deepEqual(await hank.texts(), ['before', 'in the middle'])
    await Promise.all([gina.context.close(), hank.context.close()])
  })

  test('what is in view stands still while messages, edits and reactions come in', async () => {
    const made = await server.admin('AdminService/CreateGroup', { title: 'Long', members: [{ user: 'frank', role: 'ROLE_OWNER' }, { user: 'gina' }] }) as { conv: string }
    const sent = await Promise.all(Array.from({ length: 150 }, (_, i) => server.sendAs('gina', { conv: made.conv, text: `${i} ${'words of a message '.repeat(1 + i % 7)}` })))
    const frank = await (await Person.open(browser, links['frank'] ?? '')).ready()
    await frank.page.goto(`${server.url}/#/frank/c/${made.conv}`)
    await frank.page.locator('.message').first().waitFor()
    await frank.page.getByRole('button', { name: 'To the newest message' }).click()
    const view = frank.page.locator('.timeline-view')
    await view.hover()
    await frank.page.mouse.wheel(0, -1500)
    await frank.page.waitForFunction(() => { // it has come to rest, between older and newer messages
      const v = document.querySelector('.timeline-view') as HTMLElement
      const still = v.scrollTop === Number(v.dataset['was'])
      v.dataset['was'] = String(v.scrollTop)
      return still && v.scrollTop > 0
    }, undefined, { polling: 200 })
    await view.evaluate((v) => { // the row in the middle is watched in each frame
      const { top, height } = v.getBoundingClientRect()
      const row = [...v.querySelectorAll<HTMLElement>('[data-key]')].find((r) => r.getBoundingClientRect().top > top + height / 2) as HTMLElement
      const at = row.getBoundingClientRect().top
      v.dataset['moved'] = '0'
      const look = (): void => {
        v.dataset['moved'] = String(Math.max(Number(v.dataset['moved']), row.isConnected ? Math.abs(row.getBoundingClientRect().top - at) : 9999))
        requestAnimationFrame(look)
      }
      look()
    })
    const shown = await frank.page.locator('.timeline-view [data-key]').evaluateAll((rows) => rows.map((r) => r.textContent ?? ''))
    const above = shown.flatMap((text) => /(\d+) words/.exec(text)?.[1] ?? []).slice(0, 5).map(Number) // out of view, and drawn
    assert.equal(above.length, 5)
    for (const [i, number] of above.entries()) {
      await server.sendAs('gina', { conv: made.conv, edit: { target: String(sent[number]?.seq), text: `longer than before ${i} `.repeat(12) } })
      await server.sendAs('gina', { conv: made.conv, text: `new ${i}` })
    }
    await frank.page.getByRole('button', { name: 'To the newest message' }).getByText('5 unread messages').waitFor({ state: 'attached' })
    await frank.page.getByText('longer than before 4').first().waitFor({ state: 'attached' })
    const moved = Number(await view.getAttribute('data-moved'))
    assert.ok(moved <= 1, `the row has moved by ${moved} px`)
    await frank.context.close()
  })

  test('a server that is killed and started again is found by itself, without a word if it is quick', async () => {
    const own = await Server.start()
    const made = await own.users('alice', 'bob')
    const alice = await (await Person.open(browser, made['alice'] ?? '')).ready()
    await alice.page.goto(`${own.url}/#/alice/u/bob`)
    await alice.say('before the crash')
    await alice.message('before the crash').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    await own.kill('SIGKILL')
    await alice.say('while it is away')
    await own.run()
    await alice.message('while it is away').getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
    assert.equal(await alice.page.locator('.connection').count(), 0)
    await alice.context.close()
    await own.stop()
  })

  test('two accounts live in one browser, and tabs of one account show the same', async () => {
    const alice = await at('alice', 'dave')
    const dave = await (await Person.open(alice.context, links['dave'] ?? '')).ready()
    const again = await (await Person.open(alice.context, `${server.url}/#/alice/u/dave`)).ready()
    await alice.say('to myself')
    await again.message('to myself').waitFor()
    await dave.row('alice').waitFor()
    await dave.page.getByRole('button', { name: 'Menu' }).click()
    await dave.page.getByRole('menuitem', { name: 'alice' }).click()
    await dave.row('dave').waitFor() // it is alice's list now
    await alice.context.close()
  })

  test('Back and Forward go between conversations, and close what was opened', async () => {
    const person = await at('hank', 'alice')
    const { page } = person
    await page.setViewportSize({ width: 390, height: 780 })
    await page.locator('.chat-title').click()
    await page.getByRole('complementary').waitFor()
    await page.goBack()
    await person.field.waitFor()
    await page.getByRole('button', { name: 'Back' }).click()
    await page.getByRole('searchbox').waitFor()
    await page.goBack()
    await person.field.waitFor()
    await page.goForward()
    await page.getByRole('searchbox').waitFor()
    await person.context.close()
  })
})
