// A long conversation in the web chat: scrolling, jumps and places, in short form. `npm run scroll` measures the same at length.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, JSHandle, Locator, Page } from 'playwright-core'
import { areTimesJudged, launch, Person, suiteMs, troubles } from './browser.js'
import { Server } from './server.js'
import { quantile, textOf, traced, walk } from './walk.js'

const written = 1500
const mentionsErin = 700 // the message that does
const mostRows = 200 // in the page: 160 messages, lines of days, and what has just come
const mostFrameMs = 24 // p95, where times are judged; on a machine that does nothing else it is a third of that

describe('a long conversation', { timeout: suiteMs }, () => {
  let server: Server
  let browser: Browser
  let conv: string
  let links: Readonly<Record<string, string>>

  before(async () => {
    [server, browser] = await Promise.all([Server.start(), launch()])
    links = await server.users('alice', 'bob', 'carol', 'dave', 'erin')
    conv = (await server.admin('AdminService/CreateGroup', { title: 'Long', members: [{ user: 'alice', role: 'ROLE_OWNER' }, { user: 'bob' }, { user: 'carol' }, { user: 'dave' }, { user: 'erin' }] }) as { conv: string }).conv
    let next = 0
    await Promise.all(Array.from({ length: 32 }, async () => {
      for (let n = next++; n < written; n = next++) await server.sendAs('bob', { conv, text: textOf(n), ...(n === mentionsErin ? { rel: { mentions: ['erin'] } } : {}) })
    }))
  })
  after(async () => {
    await browser.close()
    await server.stop()
    assert.deepEqual(troubles(), [])
  })

  /** Opens the conversation in a new browser profile, at the newest message. */
  async function open(): Promise<Person> {
    const person = await (await Person.open(browser, links['alice'] ?? '')).ready()
    await person.page.goto(`${server.url}/#/alice/c/${conv}`)
    await row(person.page).first().waitFor()
    const down = person.page.getByRole('button', { name: 'To the newest message' })
    if (await down.isVisible()) await down.click()
    await down.waitFor({ state: 'hidden' })
    return person
  }

  const row = (page: Page) => page.locator('.timeline-view [data-key]')

  /** The row at the top of the view, and where its top is. */
  const top = (page: Page): Promise<{ readonly key: string | undefined; readonly at: number }> => page.evaluate(() => {
    const view = document.querySelector('.timeline-view') as HTMLElement
    const edge = view.getBoundingClientRect().top
    const first = [...view.querySelectorAll<HTMLElement>('[data-key]')].find((r) => r.getBoundingClientRect().bottom > edge)
    return { key: first?.dataset['key'], at: Math.round(first?.getBoundingClientRect().top ?? 0) }
  })

  /** How many entries of the conversation the browser has stored. */
  async function stored(page: Page): Promise<number> {
    return page.evaluate(async () => {
      const names = (await indexedDB.databases()).map((d) => d.name ?? '')
      const counts = await Promise.all(names.map((name) => new Promise<number>((done, fail) => {
        const opening = indexedDB.open(name)
        opening.onerror = () => fail(opening.error)
        opening.onsuccess = () => {
          const db = opening.result
          const [table = ''] = db.objectStoreNames
          const keys = db.transaction(table).objectStore(table).getAllKeys()
          keys.onsuccess = () => {
            db.close()
            done(keys.result.filter((key) => String(key).startsWith('e/')).length)
          }
        }
      })))
      return counts.reduce((a, b) => a + b, 0)
    })
  }

  test('it is scrolled far back and forth while messages, edits and reactions come in: no row jumps, and few are drawn', async () => {
    const { page, context } = await open()
    const devtools = await context.newCDPSession(page)
    let over = false
    const noise = (async () => {
      for (let i = 0; !over; i++) {
        const { seq } = await server.sendAs('bob', { conv, text: `new ${i}` })
        await server.sendAs('bob', { conv, edit: { target: String(seq - 1 - i), text: `edited, and longer than it was before ${i}` } }).catch(() => {}) // it may be an edit itself
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    })()
    try {
      for (const [step, frames] of [[-300, 60], [300, 50]] as const) { // it does not come to the end, where the view follows
        const { result, cost } = await traced(devtools, () => page.evaluate(walk, { step, frames }))
        assert.ok(result.jumpPx <= 1, `a row jumped by ${result.jumpPx} px`)
        assert.ok(result.rows <= mostRows, `${result.rows} rows are drawn`)
        assert.ok(result.movedPx >= 10_000, `the view moved by ${result.movedPx} px only`)
        const p95 = quantile(cost.frames, 0.95)
        assert.ok(p95 > 0 && (p95 <= mostFrameMs || !areTimesJudged), `p95 of script, style and layout of a frame is ${p95} ms`)
      }
    } finally {
      over = true
      await noise
    }
    await context.close()
  })

  test('a jump to a date far back reads what is there, and not what is between; the way back is at once', async () => {
    const { page, context } = await open()
    const before = await stored(page)
    await page.locator('.chat-header').getByRole('button', { name: 'More' }).click()
    await page.getByRole('menuitem', { name: 'Jump to a date' }).click()
    const today = page.getByRole('grid').locator('[aria-current="date"]')
    await page.keyboard.press('PageUp') // by keyboard: a month back, and forth again
    await page.keyboard.press('PageDown')
    await page.waitForFunction((day) => document.activeElement?.textContent === day, await today.textContent())
    await page.keyboard.press('Enter')
    await page.getByText(textOf(3), { exact: true }).waitFor() // all are of today: the first ones
    assert.ok(await stored(page) <= before + 20, 'what is between was read too')
    assert.ok(await row(page).count() <= mostRows)
    const { movedPx, jumpPx } = await page.evaluate(walk, { step: 400, frames: 40 }) // and it goes on from there
    assert.ok(movedPx >= 8000 && jumpPx <= 1, `${movedPx} px, a jump of ${jumpPx} px`)
    await server.sendAs('bob', { conv, text: 'the newest' })
    await page.getByRole('button', { name: 'To the newest message' }).click()
    await page.getByText('the newest', { exact: true }).waitFor()
    await context.close()
  })

  test('a quote far back is one jump away, and shows what becomes of it there', async () => {
    const { page, context } = await open()
    const far = 43
    await server.sendAs('bob', { conv, text: 'what was that?', rel: { replyTo: String(far) } })
    await page.locator('.message', { hasText: 'what was that?' }).locator('.quote').click()
    const lit = page.locator('.message.lit')
    await lit.waitFor()
    const key = await lit.locator('xpath=..').getAttribute('data-key')
    await server.sendAs('bob', { conv, edit: { target: String(far), text: 'said again' } })
    await page.locator(`[data-key="${key}"]`, { hasText: 'said again' }).waitFor()
    await context.close()
  })

  test('a jump that finds no connection says so', async () => {
    const { page, context } = await (await Person.open(browser, links['erin'] ?? '')).ready()
    let cut = (): void => {}
    let isCut = false
    await page.routeWebSocket(/\/v1\/ws/, (ws) => {
      if (isCut) return void ws.close({ code: 4000 })
      const there = ws.connectToServer()
      cut = () => {
        isCut = true
        void ws.close({ code: 4000 })
        void there.close()
      }
    })
    await page.reload()
    await page.goto(`${server.url}/#/erin/c/${conv}`)
    await page.locator('.line-unread').waitFor()
    const mention = page.getByRole('button', { name: 'To the next mention' })
    await mention.waitFor()
    cut()
    await mention.click()
    await page.getByText('There is no connection to the server.').waitFor() // at once, or after the time of a jump
    await context.close()
  })

  test('older messages that come late move nothing in view, also if the first one before had a name above it', async () => {
    const { page, context } = await (await Person.open(browser, links['alice'] ?? '')).ready() // logged in, before the page is loaded again
    let held: (() => void)[] | undefined // requests for older messages, which are on their way
    await page.routeWebSocket(/\/v1\/ws/, (ws) => {
      const there = ws.connectToServer()
      ws.onMessage((m) => {
        if (held && String(m).includes('"history"')) held.push(() => there.send(m))
        else there.send(m)
      })
    })
    await page.reload()
    await page.goto(`${server.url}/#/alice/c/${conv}`)
    await row(page).first().waitFor()
    held = []
    // The view goes up to the first message that the page has, and the person waits there.
    const [first = '', second = ''] = await page.evaluate(async () => {
      const view = document.querySelector('.timeline-view') as HTMLElement
      const keys = (): string[] => [...view.querySelectorAll<HTMLElement>('[data-key]')].map((r) => r.dataset['key'] ?? '')
      let was = ''
      for (let same = 0; same < 20; same++) {
        view.scrollTop = 0
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
        const [now = ''] = keys()
        if (now !== was || view.scrollTop > 0) same = 0
        was = now
      }
      return keys()
    })
    const at = (key: string): Locator => page.locator(`[data-key="${key}"]`)
    const name = at(first).locator('.bubble-from')
    assert.equal(await name.count(), 1)
    const before = (await at(second).boundingBox())?.y ?? 0
    assert.ok(held.length > 0, 'nothing was asked for')
    const late = held
    held = undefined
    for (const send of late) send()
    await name.waitFor({ state: 'detached' }) // the author has written the one before it too
    const after = (await at(second).boundingBox())?.y ?? 0
    assert.ok(Math.abs(after - before) <= 1, `what is below the first message has moved by ${after - before} px`)
    await context.close()
  })

  test('who is at the end stays there while the field grows, also if something is drawn at that moment', async () => {
    const { page, context } = await open()
    const field = page.getByRole('textbox', { name: 'Message', exact: true })
    const small = (await field.boundingBox())?.height ?? 0
    const below = await page.evaluate(async () => {
      const view = document.querySelector('.timeline-view') as HTMLElement
      const written = document.querySelector('.composer-field') as HTMLTextAreaElement
      written.value = 'one\ntwo\nthree\nfour'
      view.dispatchEvent(new Event('scroll')) // the timeline looks where it is, before it knows that its view has become smaller
      for (let i = 0; i < 4; i++) await new Promise((done) => requestAnimationFrame(done))
      return view.scrollHeight - view.clientHeight - view.scrollTop
    })
    assert.ok(((await field.boundingBox())?.height ?? 0) > small + 20, 'the field has not grown')
    assert.ok(below <= 2, `the newest message is ${below} px below the view`)
    await context.close()
  })

  test('a chat opens at the first message that was not read, also far back, and says how many more there are', async () => {
    const { page, context } = await (await Person.open(browser, links['carol'] ?? '')).ready()
    await page.goto(`${server.url}/#/carol/c/${conv}`)
    const line = page.locator('.line-unread')
    await line.waitFor()
    assert.equal(await line.evaluate((e) => [...document.querySelectorAll('[data-key]')].indexOf(e) < 5), true) // it is among the first entries of all
    assert.ok(((await line.boundingBox())?.y ?? 9999) < 200)
    const more = page.getByRole('button', { name: 'To the newest message' }).getByText(/^\d{4} unread messages$/) // more have come in another test
    const unread = await more.textContent()
    await server.sendAs('bob', { conv, text: 'one more' })
    await more.filter({ hasNotText: unread ?? '' }).waitFor({ state: 'attached' })
    assert.equal(await line.count(), 1) // it stays where it was
    await page.getByRole('button', { name: 'To the newest message' }).click()
    await page.getByText('one more', { exact: true }).waitFor()
    await context.close()
  })

  test('a chat of low rows fills a high window when it is painted first', async () => {
    const links = await server.users('tall', 'low')
    const { conv: rows } = await server.admin('AdminService/CreateGroup', { title: 'Rows', members: [{ user: 'low', role: 'ROLE_OWNER' }, { user: 'tall' }] }) as { conv: string }
    for (let n = 0; n < 80; n++) await server.sendAs('low', { conv: rows, text: `${n}` })
    const p = await (await Person.open(browser, links['tall'] ?? '', { viewport: { width: 400, height: 1400 } })).ready()
    await p.go(`c/${rows}`)
    await p.page.getByRole('button', { name: 'To the newest message' }).click()
    await p.page.waitForFunction(() => document.querySelectorAll('.way').length === 0)
    await p.page.addInitScript(() => {
      new MutationObserver((_, self) => {
        if (!document.querySelector('.message')) return
        self.disconnect()
        requestAnimationFrame(() => Object.assign(window, { aboveFirst: document.querySelector('.timeline-view')?.scrollTop, rowsFirst: document.querySelectorAll('.message').length }))
      }).observe(document, { childList: true, subtree: true })
    })
    await p.page.reload()
    const first = await p.page.waitForFunction(() => 'aboveFirst' in window ? window : undefined) as unknown as JSHandle<{ readonly aboveFirst: number; readonly rowsFirst: number }>
    const [above, n] = await first.evaluate((w) => [w.aboveFirst, w.rowsFirst])
    assert.ok((above ?? 0) > 0, `${n} rows do not fill the view`)
    await p.context.close()
  })

  test('the place where somebody reads is there again after another chat and after a reload', async () => {
    const { page, context } = await open()
    await page.evaluate(walk, { step: -300, frames: 40 })
    const was = await top(page)
    await page.goto(`${server.url}/#/alice/u/bob`)
    await row(page).first().waitFor({ state: 'detached' })
    await page.goto(`${server.url}/#/alice/c/${conv}`)
    await row(page).first().waitFor()
    assert.deepEqual(await top(page), was)
    await page.reload()
    await page.locator(`[data-key="${was.key}"]`).waitFor()
    const is = await top(page)
    assert.deepEqual(is.key, was.key)
    assert.ok(Math.abs(is.at - was.at) <= 1, `${is.at} px, not ${was.at} px`)
    await context.close()
  })

  test('a chat with unread messages opens at them, also if the person was reading further up in it', async () => {
    const { page, context } = await open()
    await page.evaluate(walk, { step: -300, frames: 40 })
    await page.goto(`${server.url}/#/alice/u/bob`)
    await row(page).first().waitFor({ state: 'detached' })
    for (const text of ['meanwhile one', 'meanwhile two']) await server.sendAs('bob', { conv, text })
    await page.locator('.chat-row', { hasText: 'meanwhile two' }).locator('.badge').waitFor()
    await page.goto(`${server.url}/#/alice/c/${conv}`)
    const line = page.locator('.line-unread')
    await line.waitFor()
    for (const part of [line, page.getByText('meanwhile one', { exact: true }), page.getByText('meanwhile two', { exact: true }).last()]) {
      const box = await part.boundingBox()
      assert.ok(box && box.y > 0 && box.y + box.height < 700, `it is not in view: ${JSON.stringify(box)}`)
    }
    await page.locator('.chat-row', { hasText: 'meanwhile two' }).locator('.badge').waitFor({ state: 'detached' })
    await context.close()
  })

  test('a place that cannot be read now is kept for the next time', async () => {
    const { page, context } = await open()
    const toBob = async (): Promise<void> => {
      await page.goto(`${server.url}/#/alice/u/bob`)
      await row(page).first().waitFor({ state: 'detached' })
    }
    const place = (now?: string): Promise<string | null> => page.evaluate(([name, text]) => {
      if (text !== undefined) localStorage.setItem(name, text)
      return localStorage.getItem(name)
    }, [`petrel:alice:place:${conv}`, now] as const)
    const far = '100 -10'
    await toBob()
    await place(far)
    await context.setOffline(true)
    await page.goto(`${server.url}/#/alice/c/${conv}`)
    await row(page).first().waitFor() // the messages are shown, from the end
    await page.getByRole('button', { name: 'To the newest message' }).waitFor({ state: 'hidden' })
    await toBob()
    assert.equal(await place(), far)
    await context.setOffline(false)
    await server.sendAs('alice', { conv, text: 'there is a connection again' }) // one of another user would be unread
    await page.locator('.chat-row', { hasText: 'there is a connection again' }).waitFor()
    await page.goto(`${server.url}/#/alice/c/${conv}`)
    await page.getByRole('button', { name: 'To the newest message' }).waitFor()
    await toBob()
    assert.equal(await place(), far)
    await context.close()
  })

  test('on a phone nothing becomes read and nothing moves while the info covers the chat', async () => {
    const { page, context } = await (await Person.open(browser, links['dave'] ?? '', { viewport: { width: 390, height: 700 } })).ready()
    const route = (part: string): Promise<unknown> => page.goto(`${server.url}/#/dave/c/${conv}${part}`)
    await route('')
    await page.getByRole('button', { name: 'To the newest message' }).click()
    const badge = page.locator('.chat-row', { hasText: 'Long' }).locator('.badge')
    await badge.waitFor({ state: 'detached' }) // all is read

    // At the end: what comes under the info is not read, and the chat is at the end again when it shows.
    await route('/info')
    await page.locator('.timeline-view').waitFor({ state: 'hidden' })
    const before = { stored: await stored(page), rows: await row(page).count() }
    await server.sendAs('bob', { conv, text: 'under the info' })
    await page.getByText('under the info', { exact: true }).last().waitFor({ state: 'attached' })
    await page.waitForTimeout(500) // for what is not to happen
    assert.equal(await badge.count(), 1)
    assert.ok(await stored(page) <= before.stored + 2, 'it reads further back')
    assert.ok(await row(page).count() <= before.rows + 2, 'it draws more')
    await route('')
    await badge.waitFor({ state: 'detached' }) // it is in view now
    await page.getByRole('button', { name: 'To the newest message' }).waitFor({ state: 'hidden' })

    // Further up: the same row is there again, also after a reload under the info.
    await page.evaluate(walk, { step: -100, frames: 20 })
    const was = await top(page)
    await route('/info')
    await page.locator('.timeline-view').waitFor({ state: 'hidden' })
    const { seq } = await server.sendAs('bob', { conv, text: 'further down' })
    await badge.waitFor({ state: 'attached' })
    await route('')
    await row(page).first().waitFor()
    assert.deepEqual(await top(page), was)
    assert.equal(await badge.count(), 1)
    await fetch(`${server.url}/petrel.v1.MessageService/MoveCursor`, { // on another device it is read
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens['dave'] ?? ''}` }, body: JSON.stringify({ conv, read: seq, delivered: seq }),
    })
    await badge.waitFor({ state: 'detached' })
    await route('/info')
    await page.locator('.timeline-view').waitFor({ state: 'hidden' })
    await page.reload()
    await row(page).first().waitFor({ state: 'attached' })
    await route('')
    await page.locator(`[data-key="${was.key}"]`).waitFor()
    const is = await top(page)
    assert.deepEqual(is.key, was.key)
    assert.ok(Math.abs(is.at - was.at) <= 1, `${is.at} px, not ${was.at} px`)
    await context.close()
  })
})
