// Accounts of a browser: logging in and out, passwords, devices, and browsers that keep nothing.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { BrowserContext } from 'playwright-core'
import { Person, profile, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('accounts', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  async function fill(p: Person, fields: Readonly<Record<string, string>>, button: string): Promise<void> {
    for (const [label, text] of Object.entries(fields)) await p.page.getByLabel(label, { exact: true }).fill(text)
    await p.press(button)
  }

  async function signUp(user: string, at: BrowserContext | undefined = undefined, address = shared.server.url): Promise<Person> {
    const p = await Person.open(at ?? shared.browser, at ? `${address}/#/*` : address)
    await p.press('Make a new account')
    await fill(p, { 'User name': user, Password: `the password of ${user}` }, 'Sign up')
    return p.ready()
  }

  async function logIn(user: string, password = `the password of ${user}`): Promise<Person> {
    const p = await Person.open(shared.browser, shared.server.url)
    await fill(p, { 'User name': user, Password: password }, 'Log in')
    return p
  }

  test('who logs in on another device finds everything there; devices are named and logged out', async () => {
    const user = shared.name('ann')
    const here = await signUp(user)
    await here.go(`u/${user}`)
    await here.say('a note to myself')
    await here.stored('a note to myself')
    const there = await (await logIn(user)).ready()
    await there.row('My notes').click()
    await there.message('a note to myself').waitFor()
    await there.say('from the other device')
    await here.message('from the other device').waitFor()
    // Each has a line in the list, the own one first to be told apart.
    await here.go('devices')
    const own = here.page.locator('.settings .row', { hasText: 'this device' })
    await own.getByRole('button', { name: 'Rename' }).click()
    await here.page.getByLabel('Name of the device').fill('Desk')
    await here.press('Save')
    await own.getByText('Desk').waitFor()
    await there.go('devices')
    await there.page.locator('.settings .row', { hasText: 'Desk' }).waitFor()
    const other = here.page.locator('.settings .row', { hasText: 'Log out', hasNotText: /this device|Log out all/ })
    await other.getByText('Browser', { exact: false }).first().waitFor() // of which kind it is
    await other.getByRole('button', { name: 'Log out', exact: true }).click()
    await here.press('Cancel', 'dialog')
    await other.getByText('online').waitFor()
    await other.getByRole('button', { name: 'Log out', exact: true }).click()
    await here.press('Log out', 'dialog')
    await there.page.getByRole('heading', { name: 'You are logged out' }).waitFor()
    await wiped(there, user)
    await here.page.locator('.settings .row', { hasNotText: 'this device' }).getByRole('button', { name: 'Log out', exact: true }).waitFor({ state: 'detached' })
    await there.press('Log in')
    await there.page.getByLabel('User name').waitFor()
    // "Log out all others" leaves this one.
    const third = await (await logIn(user)).ready()
    await here.page.reload()
    await here.press('Log out all others')
    await here.press('Log out all others', 'dialog')
    await third.page.getByRole('heading', { name: 'You are logged out' }).waitFor()
    await here.go(`u/${user}`)
    await here.say('still here')
    await here.stored('still here')
    await Promise.all([here, there, third].map((p) => p.context.close()))
  })

  test('who chooses an easy password or a reserved name is told which of them it is', async () => {
    const p = await Person.open(shared.browser, shared.server.url)
    await p.press('Make a new account')
    const user = shared.name('adele')
    const password = p.page.getByLabel('Password', { exact: true })
    await fill(p, { 'User name': user, Password: 'password123' }, 'Sign up')
    await p.page.getByText('This password is too easy to guess. Choose another one.').waitFor()
    assert.equal(await password.getAttribute('aria-invalid'), 'true')
    assert.equal(await password.evaluate((f) => f === document.activeElement), true)
    await fill(p, { 'User name': 'adm1n', Password: 'guillemot ledge' }, 'Sign up')
    await p.page.getByRole('alert').getByText('This name is reserved').waitFor()
    assert.equal(await password.getAttribute('aria-invalid'), 'false')
    await fill(p, { 'User name': user }, 'Sign up')
    await p.ready()
    await p.context.close()
  })

  test('who chooses a user name that is taken is told so at the field', async () => {
    const [taken = ''] = await shared.users('agnes')
    const p = await Person.open(shared.browser, shared.server.url)
    await p.press('Make a new account')
    await fill(p, { 'User name': taken, Password: 'guillemot ledge' }, 'Sign up')
    await p.page.getByText('This user name, or one that looks like it, is taken.').waitFor()
    const field = p.page.getByLabel('User name', { exact: true })
    assert.equal(await field.getAttribute('aria-invalid'), 'true')
    assert.equal(await field.evaluate((f) => f === document.activeElement), true)
    await p.context.close()
  })

  test('who signs up in another script is told what a user name is, and keeps their name', async () => {
    const p = await Person.open(shared.browser, shared.server.url)
    await p.press('Make a new account')
    await fill(p, { 'User name': '安娜', Password: 'guillemot ledge' }, 'Sign up')
    await p.page.getByText('Your name in your own script goes into the field below').waitFor()
    assert.equal(await p.page.getByLabel('Name', { exact: true }).inputValue(), '安娜')
    const user = shared.name('anna')
    await fill(p, { 'User name': user }, 'Sign up')
    await p.ready()
    await p.go('settings')
    await p.page.locator('.settings h2', { hasText: '安娜' }).waitFor()
    await p.context.close()
  })

  test('a user name that a telephone begins with a capital logs in', async () => {
    const user = shared.name('nora')
    const p = await signUp(user)
    await p.context.close()
    const there = await Person.open(shared.browser, shared.server.url)
    await fill(there, { 'User name': user.replace('n', 'N'), Password: 'another password' }, 'Log in')
    await there.page.getByText('User name or password is wrong.').waitFor()
    await fill(there, { Password: `the password of ${user}` }, 'Log in')
    await there.ready()
    assert.equal(there.user, user)
    await there.context.close()
  })

  test('an error of a login goes when something else is wrong', async () => {
    const p = await Person.open(shared.browser, shared.server.url)
    await fill(p, { 'User name': 'nobody', Password: 'a wrong password' }, 'Log in')
    const error = p.page.getByText('User name or password is wrong.')
    await error.waitFor()
    await p.press('Make a new account')
    await fill(p, { 'User name': 'adm1n', Password: 'guillemot ledge' }, 'Sign up')
    await p.page.getByText('This name is reserved').waitFor()
    await fill(p, { 'User name': '安娜' }, 'Sign up')
    await p.page.getByText('Your name in your own script').waitFor()
    assert.equal(await p.page.getByText('This name is reserved').count(), 0)
    await p.context.close()
  })

  test('a disabled user is told so, in the page and at the next login', async () => {
    const user = shared.name('bert')
    const p = await signUp(user)
    await p.go(`u/${user}`)
    await p.say('a note')
    await p.stored('a note')
    await shared.server.admin('AdminService/DisableUser', { user })
    await p.page.getByRole('heading', { name: 'This account is disabled' }).waitFor()
    await p.page.getByText(`The operator of the server has disabled the account ${user}.`).waitFor()
    await wiped(p, user)
    await p.press('Log in with another account')
    await fill(p, { 'User name': user, Password: `the password of ${user}` }, 'Log in')
    await p.page.getByText('The operator of the server has disabled this account.').waitFor()
    await fill(p, { Password: 'another password' }, 'Log in')
    await p.page.getByText('User name or password is wrong.').waitFor() // nobody else learns it
    await p.context.close()
  })

  test('a link neither replaces a login nor leaves one that the server does not take', async () => {
    const user = shared.name('dina')
    const p = await signUp(user)
    for (const link of [`pt1.${user}.garbage`, (await shared.server.users(user))[user]?.split('#t=')[1] ?? '']) {
      await p.page.goto(`${shared.server.url}/#t=${link}`)
      await p.page.reload()
      await p.ready()
      assert.equal(p.user, user)
      await p.go('devices')
      await p.page.locator('.settings .row', { hasText: 'this device' }).waitFor()
    }
    const stranger = shared.name('dino')
    await p.page.goto(`${shared.server.url}/#t=pt1.${stranger}.garbage`)
    await p.page.reload()
    await p.page.getByText('This link does not log you in.').waitFor()
    await p.ready()
    assert.equal(p.user, user)
    assert.deepEqual(await kept(p, stranger), [])
    await p.context.close()
  })

  // The client gives up a connection that is silent for some seconds. A browser knows before that that it has no network.
  test('who has no network is told so while the connection still stands', async () => {
    const user = shared.name('elma')
    const p = await signUp(user, undefined, shared.server.url.replace('127.0.0.1', 'chat.test'))
    await p.go(`u/${user}`)
    const turn = (online: boolean): Promise<void> => p.page.evaluate((is) => {
      Object.defineProperty(navigator, 'onLine', { get: () => is, configurable: true })
      dispatchEvent(new Event(is ? 'online' : 'offline'))
    }, online)
    await turn(false)
    await p.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor()
    await p.say('it stands')
    await p.stored('it stands')
    await turn(true)
    await p.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor({ state: 'detached' })
    await p.context.close()
  })

  test('with a new password the old one is void, and other devices are logged out', async () => {
    const user = shared.name('ben')
    const [here, there] = [await signUp(user), await (await logIn(user)).ready()]
    await here.go('settings')
    await here.press('Change the password')
    await here.page.getByRole('dialog').getByText('All other devices will be logged out.').waitFor()
    await fill(here, { 'Current password': 'a wrong one', 'New password': 'another password' }, 'Save')
    await here.page.getByText('This is not your password.').waitFor()
    await fill(here, { 'Current password': `the password of ${user}`, 'New password': 'password123' }, 'Save')
    await here.page.getByText('This password is too easy to guess. Choose another one.').waitFor()
    await fill(here, { 'New password': 'another password' }, 'Save')
    const told = await here.page.getByText('The password is changed.').boundingBox()
    const pane = await here.page.locator('main').boundingBox()
    assert.ok(told && pane && Math.abs(told.x + told.width / 2 - pane.x - pane.width / 2) <= 1, `it is not in the middle of its pane: ${JSON.stringify([told, pane])}`)
    await there.page.getByRole('heading', { name: 'You are logged out' }).waitFor()
    await here.page.reload()
    await here.ready() // it stays logged in
    const old = await logIn(user)
    await old.page.getByText('User name or password is wrong.').waitFor()
    await fill(old, { Password: 'another password' }, 'Log in')
    await old.ready()
    await Promise.all([here, there, old].map((p) => p.context.close()))
  })

  test('a logout wipes the account in all tabs, after it has said what is not sent, and leaves the other account', async () => {
    const [user, other] = [shared.name('cleo'), shared.name('dora')]
    const one = await signUp(user)
    const two = await (await Person.open(one.context, `${shared.server.url}/#/${user}`)).ready()
    const side = await signUp(other, one.context)
    await one.go(`u/${other}`)
    await one.say('hello')
    await side.row(user).click()
    await side.message('hello').waitFor()
    await side.field.fill('a draft of the other')
    await one.field.fill('a draft')
    await one.context.setOffline(true)
    await two.go(`u/${other}`)
    await two.say('never sent')
    await one.message('never sent').waitFor()
    await one.go('settings')
    await one.press('Log out')
    await one.page.getByText('1 message is not sent yet and would be lost.').waitFor()
    await one.context.setOffline(false)
    await one.page.getByText('1 message is not sent yet and would be lost.').waitFor({ state: 'detached' })
    await one.press('Log out', 'dialog')
    await side.row(user).waitFor()
    await one.page.waitForFunction((u) => !location.hash.includes(u), user)
    await two.page.getByRole('heading', { name: 'You are logged out' }).or(two.page.getByLabel('User name')).or(two.page.locator(`.composer-field`)).first().waitFor()
    await wiped(side, user)
    assert.notDeepEqual(await kept(side, other), [])
    await side.page.reload()
    await side.message('hello').waitFor()
    assert.equal(await side.field.inputValue(), 'a draft of the other')
    await one.context.close()
  })

  test('without TLS people sign up and chat, and the page says that it keeps nothing', async () => {
    const address = shared.server.url.replace('127.0.0.1', 'chat.test')
    const user = shared.name('emma')
    const one = await signUp(user, undefined, address)
    assert.equal(await one.page.evaluate(() => isSecureContext), false)
    await one.page.locator('.connection', { hasText: 'This browser keeps nothing' }).waitFor()
    await one.go(`u/${user}`)
    await one.say('in the open')
    await one.stored('in the open')
    await one.choose('in the open', 'Copy text')
    await one.page.getByText('Copied').waitFor()
    const two = await (await Person.open(one.context, `${address}/#/${user}/u/${user}`)).ready()
    await two.message('in the open').waitFor()
    await two.say('from another tab')
    await one.message('from another tab').waitFor()
    await one.page.reload()
    await one.message('from another tab').waitFor() // it stays logged in
    await one.context.close()
  })

  test('in a browser without a database people log in and chat, until the page is closed', async () => {
    const user = shared.name('fay')
    const context = await profile(shared.browser)
    await context.addInitScript(() => {
      IDBFactory.prototype.open = () => {
        throw new DOMException('A mutation operation was attempted on a database that did not allow mutations.', 'InvalidStateError')
      }
      Storage.prototype.setItem = () => {
        throw new DOMException('it is full', 'QuotaExceededError')
      }
    })
    const p = await signUp(user, context)
    await p.page.locator('.connection', { hasText: 'This browser keeps nothing' }).waitFor()
    await p.go(`u/${user}`)
    await p.say('kept by the server')
    await p.stored('kept by the server')
    await p.page.reload()
    await fill(p, { 'User name': user, Password: `the password of ${user}` }, 'Log in')
    await p.ready()
    await p.go(`u/${user}`)
    await p.message('kept by the server').waitFor()
    await context.close()
  })

  test('a browser whose storage is full says so, loses nothing that is written, and goes on when there is room', async () => {
    const user = shared.name('gil')
    const context = await profile(shared.browser)
    await context.addInitScript(() => {
      const put = IDBObjectStore.prototype.put
      IDBObjectStore.prototype.put = function (...row) {
        if ('full' in globalThis) throw new DOMException('it is full', 'QuotaExceededError')
        return put.apply(this, row)
      }
    })
    const p = await signUp(user, context)
    await p.go(`u/${user}`)
    await p.say('while there was room')
    await p.stored('while there was room')
    await p.field.fill('the last straw')
    await p.field.evaluate((f) => {
      Object.assign(globalThis, { full: true })
      f.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }))
    })
    const gone = p.page.getByRole('heading', { name: 'The data of this browser cannot be used' })
    await p.page.getByText('This browser cannot keep it.').or(gone).first().waitFor()
    await shared.server.sendAs(user, { user, text: 'what comes cannot be kept either' })
    await gone.waitFor()
    await p.press('Go on and keep nothing')
    await p.message('while there was room').waitFor() // the server has it
    await p.page.locator('.connection', { hasText: 'This browser keeps nothing' }).waitFor()
    assert.equal(await p.field.inputValue(), 'the last straw')
    await p.field.press('Enter')
    await p.stored('the last straw')
    await p.page.reload()
    await p.stored('the last straw')
    assert.deepEqual(await p.texts(), ['while there was room', 'what comes cannot be kept either', 'the last straw'])
    await context.close()
  })

  /** Waits until a browser holds nothing of an account: it says that somebody is logged out before all of it is removed. */
  async function wiped(p: Person, user: string): Promise<void> {
    let found: readonly string[] = []
    await until(`nothing is left of ${user}`, async () => (found = await kept(p, user)).length === 0).catch(() => {}) // the assertion then names the rest
    assert.deepEqual(found, [])
  }

  /** The data of an account in a browser. */
  function kept(p: Person, user: string): Promise<string[]> {
    return p.page.evaluate(async (u) => {
      const found = [...Object.keys(localStorage), ...Object.keys(sessionStorage)].filter((k) => k.startsWith(`petrel:${u}:`) || k === 'petrel:accounts' && (localStorage.getItem(k) ?? '').includes(`"${u}"`))
      for (const { name = '' } of await indexedDB.databases()) {
        if (!name.endsWith(`/${u}`)) continue
        found.push(name)
      }
      return found
    }, user)
  }
})
