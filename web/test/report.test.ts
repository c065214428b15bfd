// Reports of messages and people, and accounts that are deleted and kept.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Person, suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('reports and deleted accounts', { timeout: suiteMs, concurrency: 2 }, () => {
  const shared = Shared.use()

  interface Told {
    readonly user?: string
    readonly reason?: string
    readonly text?: string
    readonly seq?: string
  }

  /** The reports of a user that operators see. */
  async function reportsOf(user: string): Promise<readonly Told[]> {
    return (await shared.server.admin('AdminService/ListReports', { user }) as { readonly reports?: readonly Told[] }).reports ?? []
  }

  async function fill(p: Person, fields: Readonly<Record<string, string>>, button: string): Promise<void> {
    for (const [label, text] of Object.entries(fields)) await p.page.getByLabel(label, { exact: true }).fill(text)
    await p.press(button)
  }

  test('a message is reported from its menu, and its author blocked after that', async () => {
    const [ada, ben] = await shared.pair('ada', 'ben')
    await ben.say('buy my boats')
    await ada.message('buy my boats').locator('.bubble').click({ button: 'right' })
    await ada.page.getByRole('menuitem', { name: 'Report…' }).click()
    const dialog = ada.page.getByRole('dialog')
    const send = dialog.getByRole('button', { name: 'Report', exact: true })
    assert.ok(await send.isDisabled())
    await until('the first reason has the focus', () => dialog.getByRole('radio').first().evaluate((e) => e === document.activeElement))
    await dialog.getByLabel('Advertising or spam').check()
    await dialog.getByLabel('More about it').fill('each day')
    await send.click()
    await dialog.getByText('Thank you.').waitFor()
    const [told, ...more] = await reportsOf(ben.user)
    assert.deepEqual([told?.reason, told?.text, told?.seq, more.length], ['REPORT_REASON_SPAM', 'each day', '1', 0])
    await dialog.getByText(`You can also block ${ben.user}.`).waitFor()
    await dialog.getByRole('button', { name: `Block ${ben.user}` }).click()
    await dialog.waitFor({ state: 'detached' })
    await ada.page.getByText('You have blocked').waitFor()
    await ben.message('buy my boats').locator('.bubble').click({ button: 'right' })
    await ben.page.getByRole('menuitem', { name: 'Copy' }).waitFor()
    assert.equal(await ben.page.getByRole('menuitem', { name: 'Report…' }).count(), 0, 'of an own message')
  })

  test('a person is reported from the profile', async () => {
    const [one = '', two = ''] = await shared.users('cleo', 'dan')
    const cleo = await shared.open(one, { route: `u/${two}/info` })
    await cleo.page.getByRole('complementary', { name: 'Profile' }).getByRole('button', { name: 'Report…' }).click()
    const dialog = cleo.page.getByRole('dialog')
    await dialog.getByLabel('Pretends to be somebody else').check()
    await dialog.getByRole('button', { name: 'Report', exact: true }).click()
    await dialog.getByText('Thank you.').waitFor()
    assert.deepEqual((await reportsOf(two)).map((r) => r.reason), ['REPORT_REASON_IMPERSONATION'])
  })

  test('an account is deleted with its password, others see that, and a login keeps it', async () => {
    const user = shared.name('eva')
    const [other = ''] = await shared.users('finn')
    const p = await Person.open(shared.browser, shared.server.url)
    await p.press('Make a new account')
    await p.page.getByLabel('Name', { exact: true }).fill('Eva Example')
    await fill(p, { 'User name': user, Password: `the password of ${user}` }, 'Sign up')
    await p.ready()
    const finn = await shared.open(other, { route: `u/${user}/info` })
    await finn.say('hi')
    await finn.stored('hi')
    await finn.page.getByRole('heading', { name: 'Eva Example' }).first().waitFor()
    await p.go('settings')
    await p.page.getByRole('button', { name: 'Delete the account…' }).click()
    const dialog = p.page.getByRole('dialog')
    await dialog.getByLabel('Password', { exact: true }).fill('not my password')
    await dialog.getByRole('button', { name: 'Delete the account' }).click()
    await dialog.getByText('This is not your password.').waitFor()
    await dialog.getByLabel('Password', { exact: true }).fill(`the password of ${user}`)
    await dialog.getByRole('button', { name: 'Delete the account' }).click()
    await p.page.getByText('The account is deleted.').waitFor()
    await finn.page.getByRole('heading', { name: 'Deleted account' }).first().waitFor()
    await fill(p, { 'User name': user, Password: `the password of ${user}` }, 'Log in')
    await p.page.getByText('You have deleted this account').waitFor()
    await p.press('Keep the account')
    await p.ready()
    await finn.page.getByRole('heading', { name: 'Eva Example' }).first().waitFor()
    await p.context.close()
  })
})
