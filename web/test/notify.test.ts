// Signs of new messages while the person looks elsewhere.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { launchWhole, type Person, profile, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

declare let tones: number // that were played
declare let badge: number // of the installed page

describe('a tab that is not seen', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()
  let whole: Browser
  before(async () => {
    whole = await launchWhole()
  })
  after(() => whole.close())

  /** A page of a user that counts its tones, and may notify. */
  async function listener(user: string): Promise<Person> {
    const context = await profile(whole, { permissions: ['notifications'] })
    await context.addInitScript(() => {
      Object.assign(globalThis, { tones: 0, badge: 0 })
      Object.assign(navigator, { setAppBadge: async (n: number) => void Object.assign(globalThis, { badge: n }) })
      const start = OscillatorNode.prototype.start
      OscillatorNode.prototype.start = function (when) {
        tones++
        start.call(this, when)
      }
    })
    return shared.open(user, { context })
  }

  /** Has the person look elsewhere, or at the page again. */
  async function hide(p: Person, hidden = true): Promise<void> {
    await p.page.evaluate((is) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => is ? 'hidden' : 'visible' })
      document.hasFocus = () => !is
      document.dispatchEvent(new Event('visibilitychange'))
      if (!is) dispatchEvent(new Event('focus'))
    }, hidden)
  }

  /** The notifications that stand there, as title and text. */
  function notices(p: Person): Promise<string[]> {
    return p.page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map((n) => `${n.title}: ${n.body}`))
  }

  /** Waits until exactly this notification stands there. A worker shows one some time after it is asked to. */
  async function noticed(p: Person, text: string): Promise<void> {
    await until(`a notification says ${text}`, async () => (await notices(p)).join() === text)
  }

  /** Waits until so many tones were played. */
  async function heard(p: Person, n: number): Promise<void> {
    await p.page.waitForFunction((n) => tones >= n, n).catch(() => {}) // the assertion then names their number
    assert.equal(await p.page.evaluate(() => tones), n)
  }

  const icon = (p: Person): Promise<string | null> => p.page.locator('link[rel="icon"]').getAttribute('href')

  test('title and icon count what is unread; a notification and a sound tell of it once in all tabs, and respect mute', async () => {
    const [user = '', peer = ''] = await shared.users('hope', 'igor')
    const one = await listener(user)
    const two = await shared.open(user, { context: one.context })
    await one.go('settings')
    await one.page.getByRole('switch', { name: 'When this page is hidden' }).click()
    await one.page.getByRole('switch', { name: 'When this page is hidden', checked: true }).waitFor()
    await one.page.evaluate(() => navigator.serviceWorker.ready)
    await shared.server.sendAs(peer, { user, text: 'seen at once' })
    await one.page.waitForFunction(() => document.title.startsWith('(1) '))
    assert.deepEqual([await icon(one), await notices(one), await one.page.evaluate(() => tones)], ['/icon-unread.svg', [], 0])
    await Promise.all([hide(one), hide(two)])
    await shared.server.sendAs(peer, { user, text: '**hello** you' })
    for (const p of [one, two]) await p.page.waitForFunction(() => document.title.startsWith('(2) '))
    assert.equal(await one.page.evaluate(() => badge), 2)
    await noticed(one, `${peer}: hello you`)
    const played = async (): Promise<number> => await one.page.evaluate(() => tones) + await two.page.evaluate(() => tones)
    assert.equal(await played(), 2) // the two tones of one sound
    // Without sound.
    await hide(one, false)
    await one.page.getByRole('switch', { name: 'Sound' }).click()
    await hide(one)
    await shared.server.sendAs(peer, { user, text: 'silently' })
    await noticed(one, `${peer}: silently`) // the newest takes the place of the one before
    assert.equal(await played(), 2)
    // Muted chats, and messages that were read elsewhere, are quiet.
    await hide(one, false)
    await one.row(peer).click({ button: 'right' })
    await one.page.getByRole('menuitem', { name: 'Mute' }).click()
    await one.page.getByRole('menuitem', { name: 'Always' }).click()
    await one.row(peer).locator('.badge-muted').waitFor()
    await hide(one)
    await shared.server.sendAs(peer, { user, text: 'muted' })
    await one.row(peer).getByText('muted').waitFor()
    assert.deepEqual(await notices(one), [`${peer}: silently`])
    // The notification leads to the conversation in the tab that is open, where all is read then.
    await two.page.close()
    await hide(one, false)
    const worker = one.context.serviceWorkers()[0] ?? await one.context.waitForEvent('serviceworker')
    await worker.evaluate(async () => {
      const here = globalThis as unknown as { readonly registration: ServiceWorkerRegistration }
      const [notification] = await here.registration.getNotifications()
      dispatchEvent(Object.assign(new Event('notificationclick'), { notification, waitUntil: (done: Promise<unknown>) => void done.catch(() => {}) })) // no person has clicked, so the tab does not get the focus
    })
    await one.message('muted').waitFor()
    await one.page.waitForFunction(() => !document.title.startsWith('('))
    assert.deepEqual([await icon(one), await one.page.evaluate(() => badge), await notices(one)], ['/icon.svg', 0, []])
    await one.context.close()
  })

  test('who has asked for none gets none, and the archive makes no noise', async () => {
    const { conv, users: [jill = '', kurt = ''] } = await shared.group('Noise', 'jill', 'kurt')
    const p = await listener(jill)
    await p.page.evaluate(() => navigator.serviceWorker.ready)
    await hide(p, false) // another page of the test may have the focus
    await shared.server.sendAs(kurt, { user: jill, text: 'first' })
    await p.row(kurt).getByText('first').waitFor()
    await p.page.waitForFunction(() => document.title.startsWith('(1) ')) // the event that has drawn the row went to the notifier, too
    assert.equal(await p.page.evaluate(() => tones), 0) // they look at the page
    await hide(p)
    await shared.server.sendAs(kurt, { user: jill, text: 'second' })
    await p.row(kurt).getByText('second').waitFor()
    await heard(p, 2) // the sound is on by itself
    assert.deepEqual(await notices(p), [])
    await hide(p, false)
    await p.row(kurt).click({ button: 'right' })
    await p.page.getByRole('menuitem', { name: 'Archive' }).click()
    await p.page.locator('.archive-row').waitFor()
    await hide(p)
    await shared.server.sendAs(kurt, { user: jill, text: 'archived' })
    await shared.server.sendAs(kurt, { conv, text: 'a group' })
    await p.row('Noise').getByText('a group').waitFor()
    await heard(p, 4) // of the group alone
    await p.context.close()
  })
})
