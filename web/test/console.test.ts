// Operators at the console, against a server with people, groups and things that went wrong.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import axe from 'axe-core'
import type { Locator, Request } from 'playwright-core'
import { areTimesJudged, Person, suiteMs } from './browser.js'
import { until } from './cluster.js'
import { type ConsoleWorld, makeConsoleWorld } from './consoleWorld.js'
import { confirm, digitsOf, makeOperator, openConsole, operatorPassword } from './operator.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('the console', { timeout: suiteMs }, () => {
  const shared = Shared.use()
  let w: ConsoleWorld
  before(async () => {
    w = await makeConsoleWorld(shared.browser)
  })
  after(() => w.server.stop())

  const open = (page = '', options = {}): Promise<Person> => openConsole(shared.browser, w.server, w.session, page, options)
  const cell = (p: Person, text: string | RegExp): Locator => p.page.getByRole('cell', { name: text }).first()
  const record = async (event: string): Promise<{ operator?: string; details?: { name: string; value: string }[] } | undefined> => {
    const { records = [] } = await w.server.admin('AdminService/ListAudit', { event, who: 'carol', limit: 1000 }) as { records?: { operator?: string }[] }
    return records.at(-1)
  }

  test('the setup link makes the first operator, who can log in again', async () => {
    const server = await Server.startNew()
    try {
      const p = await Person.open(shared.browser, server.setupLink, { viewport: { width: 768, height: 900 } })
      await p.page.getByLabel('Name').fill('olga')
      assert.ok(!p.page.url().includes('#k='), 'the code is in the history of the browser')
      assert.match(new URL(p.page.url()).pathname, /^\/admin\/enroll$/)
      const secret = (await p.page.locator('.factor code').textContent()) ?? ''
      await p.page.getByLabel('New password').fill(operatorPassword)
      await p.page.getByLabel('Six digits').fill(digitsOf(secret))
      await p.press('Become an operator')
      await p.page.getByRole('heading', { name: 'Keep this key' }).waitFor()
      assert.match((await p.page.locator('.secret code').textContent()) ?? '', /^pk_/)
      await p.press('I have kept it')
      await p.page.getByText('All is well').waitFor()
      await p.page.reload()
      await p.page.getByText('All is well').waitFor()
      const second = await p.context.newPage() // another tab is given the session
      await second.goto(`${server.operators}/admin/limits`)
      await second.getByRole('heading', { name: 'Limits' }).waitFor()
      await p.press('Log out')
      await p.page.getByRole('textbox', { name: 'Password' }).waitFor()
      await second.getByRole('textbox', { name: 'Password' }).waitFor()
      await p.page.getByLabel('Name', { exact: true }).fill('olga')
      await p.page.getByRole('textbox', { name: 'Password' }).fill(operatorPassword)
      await p.page.getByLabel('Six digits').fill('000000')
      await p.press('Log in')
      await p.page.getByText('Name, password, digits or key are wrong.').waitFor()
      await p.page.getByLabel('Six digits').fill(digitsOf(secret, Date.now() + 30_000)) // the others were used
      await p.press('Log in')
      await p.page.getByText('All is well').waitFor()
      await p.context.close()
    } finally {
      await server.stop()
    }
  })

  test('a session that ended asks to log in, and keeps the address', async () => {
    const session = await makeOperator(w.server, 'ende')
    const p = await openConsole(shared.browser, w.server, session, 'users?prefix=user1')
    await cell(p, 'user10').waitFor()
    await w.server.admin('AdminService/ChangeOperator', { name: 'ende', disabled: true })
    await p.page.getByText('Your session has ended.').waitFor() // whatever the operator does
    assert.equal(new URL(p.page.url()).pathname, '/admin/users')
    await p.context.close()
  })

  test('an operator sees the pages of their scopes alone', async () => {
    const p = await openConsole(shared.browser, w.server, await makeOperator(w.server, 'dora', ['users']))
    await p.page.getByRole('heading', { name: 'Users' }).waitFor()
    assert.deepEqual((await p.page.getByRole('navigation').getByRole('link').allTextContents()).sort(), ['Tenants', 'Users'])
    await p.page.goto(`${w.server.operators}/admin/audit`)
    await p.page.getByText('This needs the scope admin').waitFor()
    await p.context.close()
  })

  test('the overview says how it is, and what a node has', async () => {
    const p = await open()
    await p.page.getByText('All is well').waitFor()
    assert.match(await p.page.title(), /^Overview · Petrel console$/)
    const charts = await p.page.locator('.chart').all()
    assert.equal(charts.length, 5)
    for (const chart of charts) { // each is drawn when it comes into view
      await chart.scrollIntoViewIfNeeded()
      await chart.locator('canvas').waitFor()
    }
    await p.page.getByRole('button', { name: w.node, exact: true }).click()
    await p.page.getByText(`Queues of ${w.node}`).waitFor()
    assert.equal(new URL(p.page.url()).searchParams.get('node'), w.node)
    await cell(p, 'frozen').waitFor() // what was refused, by code
    const thaw = await w.server.freeze()
    try {
      await p.page.locator('.verdict-critical').waitFor(areTimesJudged ? { timeout: 5000 } : {})
      await p.page.getByText(/has not answered since/).waitFor()
    } finally {
      thaw()
    }
    await p.page.getByText('All is well').waitFor()
    await p.context.close()
  })

  test('the overview comes each second over one call, which ends while nobody looks', async () => {
    const p = await openConsole(shared.browser, w.server, w.session, 'limits')
    const begun: string[] = []
    const underWay = new Set<Request>()
    p.page.on('request', (r) => {
      if (!r.url().endsWith('/GetOverview')) return
      begun.push(r.postData() ?? '')
      underWay.add(r)
    })
    p.page.on('requestfinished', (r) => void underWay.delete(r))
    p.page.on('requestfailed', (r) => void underWay.delete(r))
    const followed = async (n: number): Promise<void> => {
      await until(`${n} followed`, async () => (await (await fetch(`${w.server.operators}/metrics`)).text()).includes(`\npetrel_overviews_followed ${n}\n`))
    }
    const hide = (hidden: boolean): Promise<void> => p.page.evaluate((is) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => is })
      document.dispatchEvent(new Event('visibilitychange'))
    }, hidden)
    await p.page.clock.install()
    await p.page.goto(`${w.server.operators}/admin/`)
    const time = p.page.locator('.verdict-time')
    const seen = new Set<string>()
    await until('four seconds', async () => seen.add(await time.innerText()).size > 3)
    assert.deepEqual(begun, ['{"stepS":10}'])
    await followed(1)
    await hide(true)
    await followed(0)
    await until('the call has ended', () => underWay.size === 0)
    await p.page.clock.fastForward(10_000) // a hidden page looks now and then, for its title
    await until('another call, which ends', () => begun.length === 2 && underWay.size === 0)
    await followed(0)
    await hide(false)
    await followed(1)
    await until('a third call', () => begun.length >= 3)
    assert.equal(begun.length, 3)
    assert.match(begun[2] ?? '', /"afterMs":"\d+","stepS":1/) // only what is new
    await p.context.close()
    await followed(0)
  })

  test('users are found, paged, walked through by keyboard, and saved', async () => {
    const p = await open('users')
    await cell(p, 'alice').waitFor()
    await p.page.keyboard.press('/')
    await p.page.keyboard.type('user')
    await p.page.waitForURL(/prefix=user/)
    await p.press('Next page')
    await cell(p, 'user55').waitFor()
    await p.page.goBack()
    await cell(p, 'user00').waitFor()
    await p.page.getByRole('link', { name: 'user00' }).focus()
    await p.page.keyboard.press('ArrowDown')
    await p.page.keyboard.press('Enter')
    await p.page.getByRole('heading', { name: 'user01' }).waitFor()
    await p.page.goBack()
    const [file] = await Promise.all([p.page.waitForEvent('download'), p.press('CSV')])
    const lines = readFileSync(await file.path(), 'utf8').trim().split('\r\n')
    assert.equal(lines.length, 61) // a head, and all pages
    assert.match(lines[1] ?? '', /^user00,,offline,operator,/)
    await p.context.close()
  })

  test('tables are ordered by the heads of their columns, from either end, in what is saved as well', async () => {
    const p = await open('users')
    const head = (name: string): Locator => p.page.getByRole('columnheader', { name })
    const row = (at: 'first' | 'last', text: string): Promise<void> => p.page.locator('tbody tr')[at]().getByText(text, { exact: true }).waitFor()
    await row('first', 'alice')
    assert.equal(await head('User id').getAttribute('aria-sort'), 'ascending')
    assert.equal(await head('Created').getByRole('button').count(), 0, 'nothing is indexed by the time')
    await head('User id').getByRole('button').click()
    await row('first', 'user59')
    await p.press('Next page')
    await row('last', 'alice')
    await p.page.reload()
    await row('last', 'alice')
    assert.equal(await head('User id').getAttribute('aria-sort'), 'descending')
    const [file] = await Promise.all([p.page.waitForEvent('download'), p.press('CSV')])
    const lines = readFileSync(await file.path(), 'utf8').trim().split('\r\n')
    assert.match(lines[1] ?? '', /^user59,/)
    assert.match(lines.at(-1) ?? '', /^alice,/)
    await head('Display name').getByRole('button').click()
    await p.page.getByText('Only users who have a display name.').waitFor()
    assert.equal(await head('Display name').getAttribute('aria-sort'), 'ascending')
    assert.equal(await head('User id').getAttribute('aria-sort'), null)
    await p.page.getByRole('link', { name: 'Conversations' }).click()
    await row('first', 'Boat 1')
    await head('Title').getByRole('button').click()
    await row('first', 'Harbour, closed')
    await p.page.getByRole('link', { name: 'Audit log' }).click()
    await head('Time').getByRole('button').waitFor()
    assert.equal(await head('Time').getAttribute('aria-sort'), 'descending')
    await p.context.close()
  })

  test('a user is created, logged out, disabled and enabled, each after a question', async () => {
    const p = await open('users')
    await p.press('Create a user')
    await p.page.getByLabel('User id').fill('erin')
    await confirm(p, 'Create', '–', 'erin')
    await p.page.getByText('It is shown only now.').waitFor()
    await p.press('I have kept it', 'dialog')
    await p.page.getByRole('heading', { name: 'erin' }).waitFor()
    await p.press('Disable')
    await confirm(p, 'Disable', 'enabled', 'disabled')
    await p.page.locator('.facts').first().getByText('disabled').waitFor()
    assert.equal((await record('DisableUser'))?.operator, 'carol')
    await p.press('Enable')
    await confirm(p, 'Enable', 'disabled', 'enabled')
    await p.press('Set the password')
    await p.page.getByLabel('New password').fill('a password for erin')
    await confirm(p, 'Set the password', 'none', 'as typed')
    assert.equal((await record('SetPassword'))?.operator, 'carol')
    await p.context.close()
  })

  test('without TLS an operator changes something', async () => {
    const p = await openConsole(shared.browser, w.server, w.session, 'users/dave', {}, w.server.operators.replace('127.0.0.1', 'console.test'))
    assert.equal(await p.page.evaluate(() => isSecureContext), false)
    await p.press('Disable')
    await confirm(p, 'Disable', 'enabled', 'disabled')
    await p.press('Enable')
    await confirm(p, 'Enable', 'disabled', 'enabled')
    await p.context.close()
  })

  test('a conversation is frozen and thawed, its members change, and its history needs a reason', async () => {
    const p = await open('conversations?prefix=harbour')
    await p.page.getByRole('link', { name: 'Harbour office' }).click()
    await cell(p, 'bob').waitFor()
    await p.press('Freeze')
    await confirm(p, 'Freeze', 'open', 'frozen')
    await p.press('Thaw')
    await confirm(p, 'Thaw', 'frozen', 'open')
    await p.page.getByRole('row', { name: /bob/ }).getByRole('button', { name: 'Change the role' }).click()
    await p.page.getByRole('combobox', { name: 'Role' }).selectOption('ROLE_ADMIN')
    await confirm(p, 'Change the role', 'member', 'admin')
    await p.page.getByRole('row', { name: /bob/ }).getByText('admin', { exact: true }).waitFor()
    assert.equal(await p.page.getByText('The crane is free').count(), 0)
    await p.press('Read the history')
    assert.ok(await p.page.getByRole('dialog').getByRole('button', { name: 'Read the history' }).isDisabled())
    await p.page.getByLabel('Reason').fill('ticket 17')
    await p.press('Read the history', 'dialog')
    await p.page.getByText('The crane is free').waitFor()
    assert.ok((await record('GetHistory'))?.details?.some((d) => d.value === 'ticket 17'))
    await p.context.close()
  })

  test('a direct conversation is found by one of the two, and a long body folds', async () => {
    const { conv } = await w.server.sendAs('alice', { user: 'bob', text: 'x'.repeat(30_000) })
    const p = await open('conversations?user=alice')
    await p.page.getByRole('link', { name: 'alice – bob' }).click()
    await p.page.getByText(conv).first().waitFor()
    await p.press('Read the history')
    await p.page.getByLabel('Reason').fill('alice asked why it is late')
    await p.press('Read the history', 'dialog')
    const body = p.page.locator('.body').first()
    await body.waitFor()
    assert.ok((await body.textContent() ?? '').length < 1000, 'the body is folded')
    await p.press('Show all 30,000 characters')
    await until('all of it is there', async () => (await body.textContent())?.length === 30_000)
    assert.ok((await record('GetHistory'))?.details?.some((d) => d.value.includes('alice asked')), 'the audit log has the reason')
    await p.context.close()
  })

  test('a trace tells what arrived, what waits, what was refused, and why somebody is away', async () => {
    const p = await open('trace')
    await p.page.getByLabel('Sender', { exact: true }).fill('alice')
    await p.page.getByLabel('Client message id').fill(w.clientMsgId)
    await p.press('Trace')
    await p.page.getByRole('row', { name: /^bob/ }).getByText(/delivered|read/).first().waitFor()
    await p.page.getByRole('row', { name: /^dave/ }).getByText('offline', { exact: true }).waitFor()
    await p.page.goto(`${w.server.operators}/admin/trace?user=alice&clientMsgId=${w.refused}`)
    await p.page.getByText('A server refused it').waitFor()
    await cell(p, 'frozen').waitFor()
    await p.page.getByRole('radio', { name: 'A user is not connected' }).check()
    await p.page.getByLabel('User id').fill('dave')
    await p.press('Trace')
    await p.page.getByText('never logged in').waitFor()
    await p.context.close()
  })

  test('limits show what changes before they do', async () => {
    const p = await open('limits')
    await p.page.getByLabel('New value of: Connections of a user').fill('7')
    await p.press('Show what changes')
    await confirm(p, 'Apply', '10', '7')
    await p.page.getByRole('row', { name: /^Connections of a user/ }).getByRole('cell', { name: '7', exact: true }).first().waitFor()
    assert.equal((await record('SetLimits'))?.operator, 'carol')
    await p.page.route('**/GetLimits', (route) => route.fulfill({ json: { nodes: [{ node: 'n1', limits: { sendsPerS: '10' } }, { node: 'n2', limits: { sendsPerS: '20' } }], silent: ['n3'] } }))
    await p.page.getByText('The nodes do not have the same limits.').waitFor()
    await p.page.getByText('Without an answer from n3').waitFor()
    assert.equal(await p.page.getByRole('row', { name: /^Sends per second/ }).getByRole('cell').first().innerText(), 'n1: 10\nn2: 20')
    await p.page.unroute('**/GetLimits')
    await p.context.close()
  })

  test('keys and operators are made once, and end', async () => {
    const p = await open('keys')
    await p.press('Create an admin key')
    await p.page.getByLabel('Name').fill('shop')
    await p.page.getByRole('checkbox', { name: /^users/ }).check()
    await p.press('Create', 'dialog')
    assert.match((await p.page.locator('.secret code').textContent()) ?? '', /^pk_/)
    await p.press('I have kept it', 'dialog')
    await p.page.getByRole('row', { name: /^shop/ }).getByRole('button', { name: 'Revoke' }).click()
    await confirm(p, 'Revoke', 'users', 'revoked')
    await p.page.getByRole('row', { name: /^shop/ }).waitFor({ state: 'detached' })
    await p.page.getByRole('link', { name: 'Operators' }).click()
    await p.press('Invite an operator')
    await p.page.getByLabel('Name').fill('fred')
    await p.page.getByRole('checkbox', { name: /^server/ }).check()
    await p.press('Invite', 'dialog')
    const link = (await p.page.locator('.secret code').textContent()) ?? ''
    await p.press('I have kept it', 'dialog')
    const fred = await Person.open(shared.browser, link)
    await fred.page.getByText('Welcome, fred').waitFor()
    await fred.context.close()
    await p.page.getByRole('row', { name: /^fred/ }).getByRole('button', { name: 'Remove' }).click()
    await confirm(p, 'Remove', 'server', 'removed')
    await p.context.close()
  })

  test('the audit log is searched, and its chain verified', async () => {
    await w.server.admin('AdminService/DisableUser', { user: 'user59' })
    const p = await open('audit?event=DisableUser&about=user59')
    await p.page.getByRole('row', { name: /DisableUser/ }).first().waitFor()
    assert.equal(await p.page.getByRole('row', { name: /CreateGroup/ }).count(), 0)
    await p.press('Verify')
    await p.page.getByText(/^Whole: \d+ records read$/).waitFor()
    await p.context.close()
  })

  test('a tenant refuses ids that read as one that exists, as the console sets it', async () => {
    await w.server.users('marianne')
    const register = async (user: string): Promise<number> => (await fetch(`${w.server.url}/petrel.v1.AuthService/Register`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ user, password: 'gannet cormorant auk', device: { id: 'web', kind: 'web' } }),
    })).status
    const turn = async (p: Person, change: string, label: string, to: string): Promise<void> => {
      const row = p.page.getByRole('table').first().getByRole('row', { name: 'default' })
      await row.getByRole('button', { name: change, exact: true }).click()
      const dialog = p.page.getByRole('dialog')
      await dialog.getByRole('switch', { name: label }).click()
      await dialog.getByRole('row', { name: to }).waitFor()
      await p.press(change, 'dialog')
      await dialog.waitFor({ state: 'detached' })
      await row.getByRole('cell', { name: to, exact: true }).waitFor()
    }
    const english = await open('tenants')
    await turn(english, 'Change', 'Refuse ids that read as one that exists', 'look and read like no other')
    assert.deepEqual([await register('m4rianne'), await register('m4riette')], [409, 200])
    assert.ok((await record('SetRegistration'))?.details?.some(({ name, value }) => name === 'strict_ids' && value.includes('true')))
    const chinese = await open('tenants', { locale: 'zh-CN' })
    await turn(chinese, '更改', '拒绝读起来与已有 ID 相同的用户 ID', '不得与已有的看起来相同')
    assert.equal(await register('m4rianne'), 200)
    await Promise.all([english, chinese].map((p) => p.context.close()))
  })

  test('contacts of a user are listed, added and ended, each after a question', async () => {
    await w.server.users('greta', 'hanna')
    const p = await open('users/greta')
    const contacts = p.page.locator('.part').filter({ has: p.page.getByRole('heading', { name: 'Contacts' }) })
    await contacts.getByText('No contacts and no requests.').waitFor()
    await p.press('Add a contact')
    const dialog = p.page.getByRole('dialog')
    await dialog.getByLabel('User', { exact: true }).fill('nobody at all')
    await p.press('Add a contact', 'dialog')
    await dialog.locator('.trouble').waitFor()
    await dialog.getByLabel('User', { exact: true }).fill('hanna')
    await confirm(p, 'Add a contact', 'none', 'contact')
    await contacts.getByRole('row', { name: 'hanna' }).getByText('contact', { exact: true }).waitFor()
    assert.equal((await record('SetContacts'))?.operator, 'carol')
    await contacts.getByRole('row', { name: 'hanna' }).getByRole('button', { name: 'End' }).click()
    await confirm(p, 'End', 'contact', 'none')
    await contacts.getByText('No contacts and no requests.').waitFor()
    await p.context.close()
  })

  test('a report is read with a reason, noted and closed by a mute that ends again', async () => {
    const tokens = await w.server.users('rita', 'sven')
    assert.ok(tokens)
    await w.server.admin('AdminService/SendAs', { from: 'sven', send: { user: 'rita', clientMsgId: 'r1', text: 'buy my boats' } })
    const told = await fetch(`${w.server.url}/petrel.v1.AccountService/Report`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${w.server.tokens['rita'] ?? ''}` }, body: JSON.stringify({ user: 'sven', reason: 'REPORT_REASON_SPAM', text: 'each day' }) })
    assert.ok(told.ok, await told.text())
    const home = await open('')
    await home.page.getByRole('link', { name: 'waits for a decision' }).click()
    await home.page.getByRole('row', { name: 'sven' }).getByRole('link').first().click()
    await home.page.getByText('each day').waitFor()
    await home.press('Add a note')
    await home.page.getByRole('dialog').getByLabel('Note').fill('the third one')
    await home.press('Add a note', 'dialog')
    await home.page.getByRole('cell', { name: 'the third one' }).waitFor()
    await home.press('Mute')
    await home.page.getByRole('dialog').getByLabel('For').selectOption('1')
    await confirm(home, 'Mute', 'may write', 'muted')
    await home.page.getByRole('row', { name: 'user muted' }).waitFor()
    assert.equal((await record('ResolveReport'))?.operator, 'carol')
    await home.page.goto(`${w.server.operators}/admin/users/sven`)
    await home.page.getByText('Muted until').waitFor()
    await home.press('Let them write')
    await confirm(home, 'Let them write', 'muted', 'may write')
    await home.page.getByRole('button', { name: 'Mute', exact: true }).waitFor()
    await home.context.close()
  })

  test('the profile of a user is changed, and who changes profiles, each after a question', async () => {
    await w.server.users('fiona')
    await w.server.admin('AdminService/SetProfiles', { profiles: [{ user: 'fiona', about: 'sails', fields: { title: 'Mate', unit: 'A' }, visibility: { about: 'VISIBILITY_NOBODY', 'fields.title': 'VISIBILITY_CONTACTS' } }] })
    const p = await open('users/fiona')
    const profile = p.page.locator('.part').filter({ has: p.page.getByRole('heading', { name: 'Profile' }) })
    await profile.getByText('hidden from others').waitFor()
    await profile.getByText('for contacts').waitFor()
    await p.press('Change the profile')
    const dialog = p.page.getByRole('dialog')
    assert.equal(await dialog.getByRole('button', { name: 'Change', exact: true }).isEnabled(), false)
    await dialog.getByLabel('Display name').fill('Fiona Firth')
    await dialog.getByLabel('About').fill('')
    await dialog.getByLabel('title').fill('Captain')
    await dialog.getByLabel('Another field of the application').fill('boat')
    await dialog.getByLabel('Its value').fill('Gannet')
    assert.deepEqual(await dialog.locator('.changes tbody tr').allInnerTexts(), ['Display name\t–\tFiona Firth', 'About\tsails\t–', 'boat\t–\tGannet', 'title\tMate\tCaptain'])
    await dialog.getByLabel('Handle').fill('Fiona F')
    await p.press('Change', 'dialog')
    await dialog.getByText('A value is not allowed.').waitFor()
    await dialog.getByLabel('Handle').fill('fiona.f')
    await confirm(p, 'Change', '–', 'Fiona Firth')
    await p.page.getByRole('heading', { name: 'Fiona Firth' }).waitFor()
    await profile.getByText('fiona.f').waitFor()
    const { profile: now } = await w.server.admin('AdminService/GetUser', { user: 'fiona' }) as { profile?: { about?: string; fields?: object } }
    assert.deepEqual([now?.about, now?.fields], [undefined, { boat: 'Gannet', title: 'Captain', unit: 'A' }])
    assert.equal((await record('SetProfiles'))?.operator, 'carol')

    await p.page.goto(`${w.server.operators}/admin/tenants`)
    for (const [from, to, fields] of [['none', 'Display name, boat', ['display_name', 'fields.boat']], ['Display name, boat', 'none', undefined]] as const) {
      await p.page.getByRole('table').first().getByRole('row', { name: 'default' }).getByRole('button', { name: 'People' }).click()
      await dialog.getByRole('switch', { name: 'Display name' }).click()
      await dialog.getByLabel('Single fields of the application').fill(to === 'none' ? '' : 'boat')
      await confirm(p, 'Change', from, to)
      const { managed } = await w.server.admin('AdminService/GetTenant', {}) as { managed?: string[] }
      assert.deepEqual(managed, fields)
    }
    for (const [from, to, rule] of [['no rule', 'wait', 'FIRST_MESSAGES_REQUEST'], ['wait', 'no rule', undefined]] as const) {
      await p.page.getByRole('table').first().getByRole('row', { name: 'default' }).getByRole('button', { name: 'People' }).click()
      await dialog.getByRole('radio', { name: to }).check()
      await confirm(p, 'Change', from, to)
      const { firstMessages } = await w.server.admin('AdminService/GetTenant', {}) as { firstMessages?: string }
      assert.equal(firstMessages, rule)
    }
    await p.context.close()
  })

  test('log, refusals, cluster, tenants and backups show what there is', async () => {
    const p = await open('log?contains=store')
    await cell(p, /store is open/).waitFor()
    for (const [page, text] of [['Refusals', 'frozen'], ['Cluster', w.node], ['Tenants', 'default'], ['Backups', 'never']] as const) {
      await p.page.getByRole('navigation').getByRole('link', { name: page }).click()
      await cell(p, text).waitFor()
    }
    await p.context.close()
  })

  const pages = ['', `?node=`, 'users', 'users/bob', 'conversations', 'conversations/', 'trace', 'trace/', 'refusals', 'log', 'audit', 'limits', 'tenants', 'operators', 'keys', 'cluster', 'backups']
  const all = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']
  for (const [colorScheme, locale, rules] of [['light', 'en-US', all], ['dark', 'zh-CN', ['color-contrast']]] as const) { // dark looks differ by their colours alone
    test(`axe finds nothing serious: ${colorScheme}, ${locale}`, async () => {
      const p = await open('', { colorScheme, locale, viewport: { width: 768, height: 900 }, reducedMotion: 'reduce' })
      const found: string[] = []
      await p.page.evaluate(axe.source)
      /** Goes there as a link of the console does, without a load. */
      const show = (to: string): Promise<void> => p.page.evaluate((path) => {
        history.pushState(null, '', path)
        dispatchEvent(new Event('petrel-moved'))
      }, `/admin/${to}`)
      const look = async (view: string): Promise<void> => {
        await p.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))) // it has been drawn
        await p.page.waitForFunction(() => document.getAnimations().every((a) => a.playState !== 'running')) // colours have arrived
        const { violations } = await p.page.evaluate((runOnly) => (globalThis as unknown as { axe: typeof axe }).axe.run(document, { runOnly, resultTypes: ['violations'] }), [...rules])
        found.push(...violations.flatMap((v) => v.nodes.map((n) => `${view}: ${v.id}: ${n.html.slice(0, 160)} ${n.any[0]?.message ?? ''}`)))
        if (await p.page.evaluate(() => document.documentElement.scrollWidth > innerWidth || (document.querySelector('main')?.scrollWidth ?? 0) > (document.querySelector('main')?.clientWidth ?? 0))) found.push(`${view}: wider than the window`)
        found.push(...await p.page.evaluate((of) => [...document.querySelectorAll('.table-box')].filter((b) => b.scrollWidth > b.clientWidth).flatMap((b) => {
          const said = `${of}: ${b.getAttribute('aria-label')}: ${b.scrollWidth} px in ${b.clientWidth}`
          if (b.querySelector('td.action')) return `${said}: the actions cover its end`
          const attached = getComputedStyle(b).backgroundAttachment
          return attached.includes('local') && attached.includes('scroll') ? [] : `${said}: no shadow says that it goes on`
        }), view))
      }
      for (const page of pages) {
        const to = page === '?node=' ? `?node=${w.node}` : page === 'conversations/' ? `conversations/${w.conv}` : page === 'trace/' ? `trace?conv=${w.conv}&seq=${w.seq}` : page
        await show(to)
        await p.page.locator('main :is(td, dd, input):visible').first().waitFor() // past incidents are folded
        await p.page.waitForFunction(() => !/Loading…|加载中/.test(document.querySelector('main')?.textContent ?? ''))
        await look(to)
      }
      await show('limits')
      await p.page.locator('main input').first().fill('9')
      await p.page.locator('main button[type=submit]').click()
      await p.page.getByRole('dialog').locator('td').first().waitFor()
      await look('a question')
      await p.page.keyboard.press('Escape')
      await p.page.locator('.who button').click()
      await p.page.locator('input[type=password]').waitFor()
      await look('log in')
      w = { ...w, session: await makeOperator(w.server, `carol-${colorScheme}-${locale}`.toLowerCase()) } // that one has logged out
      assert.deepEqual(found, [])
      await p.context.close()
    })
  }
})
