// Contacts: requests, answers, remarks, and what a block changes.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { drawn, Person, profile, suiteMs, until } from './browser.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

const pane = (p: Person): Locator => p.page.getByRole('complementary', { name: 'Profile' })
const contacts = (p: Person): Locator => p.page.getByRole('dialog', { name: 'Contacts' })
/** The part of the list of contacts under a title. */
const part = (p: Person, title: string): Locator => contacts(p).locator('section', { has: p.page.getByRole('heading', { name: title }) })

async function openContacts(p: Person): Promise<void> {
  await p.page.getByRole('button', { name: 'Menu', exact: true }).click()
  await p.page.getByRole('menuitem', { name: 'Contacts' }).click()
  await contacts(p).waitFor()
}

/** Asks the user whose profile is open. */
async function ask(p: Person, greeting = ''): Promise<void> {
  await pane(p).getByRole('button', { name: 'Add contact' }).click()
  await p.page.getByRole('dialog').getByRole('textbox').fill(greeting)
  await p.press('Send request', 'dialog')
  await p.page.getByRole('dialog').waitFor({ state: 'detached' })
}

describe('contacts', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  /** Calls a method as a user, as another device does. */
  async function as(user: string, method: string, request: object, server: Server = shared.server): Promise<void> {
    const answer = await fetch(`${server.url}/petrel.v1.${method}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens[user] ?? ''}` }, body: JSON.stringify(request),
    })
    assert.ok(answer.ok, await answer.text())
  }

  /** Two new users, each with the profile of the other open. */
  async function profiles(a: string, b: string): Promise<readonly [Person, Person]> {
    const [one = '', two = ''] = await shared.users(a, b)
    return Promise.all([shared.open(one, { route: `u/${two}/info` }), shared.open(two, { route: `u/${one}/info` })])
  }

  test('a request is counted, shown with its greeting, and accepted', async () => {
    const [ada, ben] = await profiles('ada', 'ben')
    await pane(ada).getByRole('button', { name: 'Add contact' }).click()
    const greeting = ada.page.getByRole('dialog').getByLabel('Greeting')
    await greeting.fill('x'.repeat(201))
    await ada.page.getByRole('alert').getByText('1 character too many').waitFor()
    assert.ok(await ada.page.getByRole('button', { name: 'Send request' }).isDisabled())
    await greeting.fill('🦊 from the choir')
    await ada.page.getByText('16 of 200 characters').waitFor()
    await greeting.press('Enter')
    await pane(ada).getByText(`You have asked ${ben.user}`).waitFor()
    await until('the focus is in the pane', () => pane(ada).evaluate((e) => e.contains(document.activeElement)))

    await ben.page.locator('.sidebar-header').getByText('1 contact request waits').waitFor({ state: 'attached' })
    await pane(ben).getByText('🦊 from the choir').waitFor()
    await ben.page.locator('.request-line').getByText(`${ada.user} wants to add you as a contact. 🦊 from the choir`).waitFor()
    await openContacts(ben)
    await part(ben, 'Requests').getByText('🦊 from the choir').waitFor()
    await part(ben, 'Requests').getByRole('button', { name: 'Accept' }).press('Enter')
    await part(ben, 'Contacts').getByText(`@${ada.user}`).waitFor()
    assert.equal(await part(ben, 'Requests').count(), 0)
    await until('the focus is in the list', () => contacts(ben).locator('.dialog-list').evaluate((e) => e === document.activeElement))
    assert.equal(await ben.page.locator('.sidebar-header .badge').count(), 0)
    await pane(ada).getByRole('button', { name: 'Remove contact' }).waitFor()

    await ben.page.keyboard.press('Escape')
    await ben.go('settings')
    await openContacts(ben)
    await contacts(ben).getByRole('searchbox').fill(`@${ada.user}`)
    await contacts(ben).getByRole('searchbox').press('Enter')
    await ben.page.getByRole('heading', { name: ada.user, level: 1 }).waitFor()
    assert.match(ben.page.url(), new RegExp(`/u/${ada.user}$`))
    await Promise.all([ada.context.close(), ben.context.close()])
  })

  test('a refusal is not told, and who has asked can withdraw', async () => {
    const [cleo, dan] = await profiles('cleo', 'dan')
    await ask(cleo)
    await pane(dan).getByText(`${cleo.user} wants to add you`).waitFor()
    await pane(dan).getByRole('button', { name: 'Refuse' }).click()
    await pane(dan).getByRole('button', { name: 'Add contact' }).waitFor()
    await openContacts(cleo)
    await part(cleo, 'Sent').getByRole('button', { name: 'Withdraw' }).click()
    await contacts(cleo).getByText('No contacts yet').waitFor()
    await contacts(cleo).getByRole('button', { name: 'Add contact' }).click()
    await cleo.page.getByRole('dialog', { name: 'New chat' }).waitFor()
    await Promise.all([cleo.context.close(), dan.context.close()])
  })

  test('a remark takes the place of the name, for the person alone', async () => {
    const { conv, users: [eva = '', finn = '', gil = ''] } = await shared.group('Choir', 'eva', 'finn', 'gil')
    await as(finn, 'AccountService/UpdateAccount', { displayName: 'Finn Berg' })
    await shared.server.admin('AdminService/SetContacts', { pairs: [{ user: eva, other: finn }, { user: eva, other: gil }] })
    await shared.server.sendAs(finn, { user: eva, text: 'la la' })
    await shared.server.sendAs(finn, { conv, text: `@${gil} listen`, rel: { mentions: [gil] } })
    const p = await shared.open(eva, { route: `u/${finn}/info` })
    await pane(p).getByRole('button', { name: 'Remark' }).click()
    const remark = p.page.getByRole('dialog').getByLabel('Remark')
    await remark.fill('x'.repeat(65))
    await p.page.getByRole('alert').getByText('1 character too many').waitFor()
    await remark.fill('Zoltan the bass')
    await p.press('Save', 'dialog')
    await pane(p).getByRole('heading', { name: 'Zoltan the bass' }).waitFor()
    await pane(p).getByText('Finn Berg', { exact: true }).waitFor()
    await p.page.getByRole('heading', { name: 'Zoltan the bass', level: 1 }).waitFor()
    const rows = p.page.locator('.chat-row-name')
    await rows.getByText('Zoltan the bass').waitFor()
    await p.page.getByRole('searchbox').fill('finn berg') // the real name still finds the conversation
    await until('the list has one row', async () => (await rows.allTextContents()).join() === 'Zoltan the bass')
    await p.page.getByRole('searchbox').fill('')
    await as(eva, 'ContactService/SetRemark', { user: gil, remark: 'Abel' }) // another device
    await p.go(`c/${conv}`)
    await p.page.locator('.bubble-from').getByText('Zoltan the bass').waitFor()
    await p.message('@Abel listen').waitFor()
    await openContacts(p)
    assert.deepEqual(await part(p, 'Contacts').locator('.chat-row-name').allTextContents(), ['Abel', 'Zoltan the bass'])
    await p.context.close()
    const other = await shared.open(gil, { route: `c/${conv}` })
    await other.page.locator('.bubble-from').getByText('Finn Berg').waitFor()
    await other.context.close()
  })

  test('a removal asks once, and the other one keeps the contact', async () => {
    const [hal, ida] = await profiles('hal', 'ida')
    await shared.server.admin('AdminService/SetContacts', { pairs: [{ user: hal.user, other: ida.user }] })
    await pane(hal).getByRole('button', { name: 'Remove contact' }).click()
    await hal.press('Cancel', 'dialog')
    await pane(hal).getByRole('button', { name: 'Remove contact' }).click()
    await hal.press('Remove contact', 'dialog')
    await pane(hal).getByRole('button', { name: 'Add contact' }).waitFor()
    await pane(ida).getByRole('button', { name: 'Remove contact' }).waitFor()
    await ask(hal) // who was kept as a contact comes back without a question
    await pane(hal).getByRole('button', { name: 'Remove contact' }).waitFor()
    await Promise.all([hal.context.close(), ida.context.close()])
  })

  test('a request to a user who blocks waits unseen, and a later one of theirs meets it', async () => {
    const [jim, kay] = await profiles('jim', 'kay')
    await pane(kay).getByRole('button', { name: 'Block' }).click()
    await pane(kay).getByRole('button', { name: 'Add contact' }).waitFor({ state: 'detached' })
    await ask(jim, 'hello?')
    await pane(jim).getByText('hello?').waitFor()
    await drawn(kay.page)
    assert.equal(await kay.page.locator('.sidebar-header .badge').count(), 0)
    await pane(kay).getByRole('button', { name: 'Unblock' }).click()
    await ask(kay)
    for (const p of [jim, kay]) await pane(p).getByRole('button', { name: 'Remove contact' }).waitFor()
    await Promise.all([jim.context.close(), kay.context.close()])
  })

  test('a user who was looked up is added by their handle, with the keyboard', async () => {
    const [lou = '', max = ''] = await shared.users('lou', 'max')
    await as(max, 'AccountService/UpdateAccount', { displayName: 'Max M', handle: `the.${max}` })
    const p = await shared.open(lou)
    await p.page.getByRole('button', { name: 'New chat' }).first().click()
    const dialog = p.page.getByRole('dialog', { name: 'New chat' })
    await dialog.getByRole('searchbox').fill(`@the.${max}`)
    await dialog.getByRole('button', { name: 'Add contact' }).press('Enter')
    const field = p.page.getByRole('dialog', { name: 'Add contact' }).getByRole('textbox')
    await field.fill('hi')
    await field.press('Enter')
    await dialog.getByText('Asked', { exact: true }).waitFor()
    await p.context.close()
    const other = await shared.open(max, { route: `u/${lou}/info` })
    await pane(other).getByText('hi', { exact: true }).waitFor()
    await other.context.close()
  })

  test('an answer that comes too late says so', async () => {
    const [one = '', two = ''] = await shared.users('ned', 'ola')
    const context = await profile(shared.browser)
    await context.routeWebSocket(/\/v1\/ws/, (page) => {
      const there = page.connectToServer()
      page.onMessage(async (m) => {
        if (String(m).includes('AcceptContact')) await as(one, 'ContactService/WithdrawContact', { user: two })
        there.send(m)
      })
    })
    const [ned, ola] = await Promise.all([shared.open(one, { route: `u/${two}/info` }), shared.open(two, { context, route: `u/${one}/info` })])
    await ask(ned)
    await pane(ola).getByRole('button', { name: 'Accept' }).click()
    await ola.page.getByText('The request or contact is not there any more.').waitFor()
    await pane(ola).getByRole('button', { name: 'Add contact' }).waitFor()
    await Promise.all([ned.context.close(), ola.context.close()])
  })

  test('what the server refuses is said in words, at its place', async () => {
    const server = await Server.start({ PETREL_ACCOUNTS__LOOK_UPS_PER_MIN: '2' }) // its rules hold for all users of a server
    const links = await server.users('pia', 'quin', 'rob', 'sue')
    const p = await (await Person.open(shared.browser, links['pia'] ?? '')).ready()
    for (const other of ['quin', 'rob', 'sue']) {
      await p.go(`u/${other}/info`)
      await pane(p).getByRole('heading', { name: other }).waitFor()
    }
    await pane(p).getByRole('button', { name: 'Add contact' }).click()
    await p.press('Send request', 'dialog')
    await p.page.getByRole('dialog').getByRole('alert').getByText('many people in a short time').waitFor()
    await p.press('Cancel', 'dialog')
    await as('quin', 'ContactService/RequestContact', { user: 'pia' }, server)
    await server.admin('AdminService/SetProfileRules', { managed: ['contacts'] })
    await p.go('u/quin/info')
    await pane(p).getByRole('button', { name: 'Accept' }).click()
    await pane(p).getByRole('alert').getByText('only the operator of the server changes them').waitFor()
    await p.context.close()
    await server.stop()
  })

  test('list, pane and dialogs fit into 360 px, in Chinese', async () => {
    const [tom = '', uma = '', vic = ''] = await shared.users('tom', 'uma', 'vic')
    await as(uma, 'AccountService/UpdateAccount', { displayName: 'Uma'.repeat(20) })
    await as(uma, 'ContactService/RequestContact', { user: tom, greeting: 'W'.repeat(200) })
    await as(tom, 'ContactService/RequestContact', { user: vic, greeting: '海燕'.repeat(100) })
    const p = await shared.open(tom, { options: { viewport: { width: 360, height: 780 }, locale: 'zh-CN' } })
    const fits = async (): Promise<void> => {
      await drawn(p.page)
      assert.deepEqual(await p.page.evaluate(() => [...document.querySelectorAll<HTMLElement>('.info *, dialog *, .sidebar-header *')].filter((e) => e.getClientRects().length > 0 && e.getBoundingClientRect().right > innerWidth + 1 && !e.matches('.unseen, input, input *')).map((e) => e.outerHTML.slice(0, 100))), [])
    }
    await p.page.getByRole('button', { name: '菜单', exact: true }).click()
    await p.page.getByRole('menuitem', { name: '联系人' }).click()
    await p.page.getByText('W'.repeat(200)).waitFor()
    await fits()
    await p.page.getByRole('dialog').getByText('海燕'.repeat(100)).click()
    await p.page.getByRole('heading', { name: vic, level: 1 }).waitFor()
    await p.go(`u/${uma}/info`)
    await p.page.getByRole('button', { name: '接受' }).waitFor()
    await fits()
    await p.page.getByRole('button', { name: '接受' }).click()
    await p.page.getByRole('button', { name: '备注名' }).click()
    await fits()
    await p.context.close()
  })
})
