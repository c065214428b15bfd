// Profiles: what people say of themselves, who sees it, and how soon.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { drawn, Person, suiteMs, until } from './browser.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('profiles', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  /** Changes a profile, as a program of the user does. */
  async function update(user: string, request: object): Promise<void> {
    const answer = await fetch(`${shared.server.url}/petrel.v1.AccountService/UpdateAccount`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${shared.server.tokens[user] ?? ''}` }, body: JSON.stringify(request),
    })
    assert.ok(answer.ok, await answer.text())
  }

  async function edit(p: Person): Promise<void> {
    await p.go('settings')
    await p.press('Edit the profile')
    await p.page.getByLabel('About', { exact: true }).waitFor()
  }

  test('a changed name and about are on the open screens of others, without an action of theirs', async () => {
    const [ada, ben] = await shared.pair('ada', 'ben')
    await ada.say('hello')
    await ben.message('hello').waitFor()
    await ben.page.locator('.chat-title').click()
    const pane = ben.page.getByRole('complementary', { name: 'Profile' })
    await pane.getByRole('heading', { name: ada.user }).waitFor()
    await edit(ada)
    await ada.page.getByLabel('Name', { exact: true }).fill('Ada Lovelace')
    await ada.page.getByLabel('About', { exact: true }).fill('counts 🦊')
    await ada.page.getByText('8 of 140 characters').waitFor()
    await ada.press('Save', 'dialog')
    await ada.page.getByRole('dialog').waitFor({ state: 'detached' })
    await ada.page.getByRole('heading', { name: 'Ada Lovelace' }).waitFor()
    await pane.getByRole('heading', { name: 'Ada Lovelace' }).waitFor()
    await pane.getByText('counts 🦊').waitFor()
    await ben.page.getByRole('heading', { name: 'Ada Lovelace', level: 1 }).waitFor()
    await ben.row('Ada Lovelace').waitFor()
    await Promise.all([ada.context.close(), ben.context.close()])
  })

  test('in an open group a changed name is at the messages, and in the list of members', async () => {
    const { conv, users: [eva = '', finn = ''] } = await shared.group('Choir', 'eva', 'finn')
    await shared.server.sendAs(finn, { conv, text: 'la la' })
    const p = await shared.open(eva, { route: `c/${conv}/info` })
    const line = p.page.getByRole('complementary').locator('.row', { hasText: `@${finn}` })
    await p.message('la la').locator('.bubble-from').getByText(finn).waitFor()
    await line.waitFor()
    await update(finn, { displayName: 'Finn the Bass' })
    await p.message('la la').locator('.bubble-from').getByText('Finn the Bass').waitFor()
    await line.getByText('Finn the Bass').waitFor()
    await p.context.close()
  })

  test('a person is found by the exact handle', async () => {
    const [gus = '', hedy = ''] = await shared.users('gus', 'hedy')
    const handle = `h.${hedy}_lamarr`
    await update(hedy, { displayName: 'Hedy', handle })
    const p = await shared.open(gus)
    await p.page.getByRole('button', { name: 'New chat' }).first().click()
    await p.page.getByRole('dialog').getByRole('searchbox').fill(`@H.${hedy}_lamarr`)
    await p.page.getByRole('dialog').locator('.people-row', { hasText: 'Hedy' }).click()
    await p.page.getByRole('heading', { name: 'Hedy', level: 1 }).waitFor()
    assert.match(p.page.url(), new RegExp(`/u/${hedy}$`))
    await p.context.close()
  })

  test('what is wrong with a field stands at it: a handle that is taken, too short, or of other signs', async () => {
    const [ivy = '', jan = ''] = await shared.users('ivy', 'jan')
    await update(ivy, { handle: `the_${ivy}` })
    const p = await shared.open(jan)
    await edit(p)
    const handle = p.page.getByLabel('Handle', { exact: true })
    for (const [text, why] of [[`The_${ivy}`, 'Somebody has this handle'], ['jo', 'at least 3'], ['jan-2', 'a to z'], ['administrator', 'reserved']] as const) {
      await handle.fill(text)
      await p.press('Save', 'dialog')
      await p.page.getByRole('alert').getByText(why).waitFor()
      assert.equal(await handle.getAttribute('aria-invalid'), 'true')
    }
    await p.page.getByLabel('Name', { exact: true }).fill('Jan kept')
    await p.press('Save', 'dialog')
    await p.page.getByRole('heading', { name: 'Jan kept' }).waitFor() // the name is stored, the handle is not
    await handle.fill(`jan_${jan}`)
    await p.press('Save', 'dialog')
    await p.page.getByText(`@jan_${jan}`).waitFor()
    await p.context.close()
  })

  test('a hidden about is not seen by others, and its user still has it', async () => {
    const [kim, lea] = await shared.pair('kim', 'lea')
    await kim.say('hi')
    await lea.message('hi').waitFor()
    await update(kim.user, { about: 'a secret', displayName: 'Kim K' })
    await lea.page.locator('.chat-title').click()
    const pane = lea.page.getByRole('complementary', { name: 'Profile' })
    await pane.getByText('a secret').waitFor()
    await edit(kim)
    await kim.page.getByRole('radiogroup', { name: 'Who sees what you say' }).getByRole('radio', { name: 'Only me' }).check()
    await kim.press('Save', 'dialog')
    await kim.page.getByRole('dialog').waitFor({ state: 'detached' })
    await pane.getByText('a secret').waitFor({ state: 'detached' })
    await pane.getByRole('heading', { name: 'Kim K' }).waitFor()
    await edit(kim)
    assert.equal(await kim.page.getByLabel('About', { exact: true }).inputValue(), 'a secret')
    await Promise.all([kim.context.close(), lea.context.close()])
  })

  test('an about for contacts is seen by contacts alone, until they are contacts no more', async () => {
    const [nora, omar] = await shared.pair('nora', 'omar')
    await nora.say('hi')
    await omar.message('hi').waitFor()
    await update(nora.user, { about: 'a word to friends', displayName: 'Nora N' })
    await omar.page.locator('.chat-title').click()
    const pane = omar.page.getByRole('complementary', { name: 'Profile' })
    const about = pane.getByText('a word to friends')
    await about.waitFor()
    await edit(nora)
    await nora.page.getByRole('radiogroup', { name: 'Who sees what you say' }).getByRole('radio', { name: 'Contacts' }).check()
    await nora.press('Save', 'dialog')
    await nora.page.getByRole('dialog').waitFor({ state: 'detached' })
    await about.waitFor({ state: 'detached' })
    await shared.server.admin('AdminService/SetContacts', { pairs: [{ user: nora.user, other: omar.user }] })
    await about.waitFor()
    await edit(nora)
    assert.ok(await nora.page.getByRole('radiogroup', { name: 'Who sees what you say' }).getByRole('radio', { name: 'Contacts' }).isChecked())
    await shared.server.admin('AdminService/SetContacts', { pairs: [{ user: nora.user, other: omar.user }], end: true })
    await about.waitFor({ state: 'detached' })
    await Promise.all([nora.context.close(), omar.context.close()])
  })

  test('a field that only the back end changes is shown as such', async () => {
    const server = await Server.start() // the rule holds for all users of a server
    await server.admin('AdminService/SetProfileRules', { managed: ['display_name'] })
    const p = await (await Person.open(shared.browser, (await server.users('mia'))['mia'] ?? '')).ready()
    await edit(p)
    const name = p.page.getByLabel('Name', { exact: true })
    await name.fill('Mia herself')
    await p.page.getByLabel('About', { exact: true }).fill('still mine')
    await p.press('Save', 'dialog')
    await p.page.getByText('Only the operator of the server changes this.').waitFor()
    assert.ok(await name.isDisabled())
    assert.equal(await name.inputValue(), '')
    await p.press('Save', 'dialog') // the rest is stored already
    await p.page.getByRole('dialog').waitFor({ state: 'detached' })
    await edit(p)
    assert.equal(await p.page.getByLabel('About', { exact: true }).inputValue(), 'still mine')
    await p.context.close()
    await server.stop()
  })

  test('the profile of a member opens and closes by the keyboard, and has what a person can do', async () => {
    const { conv, users: [nia = '', oli = ''] } = await shared.group('Tea', 'nia', 'oli')
    await update(oli, { displayName: 'Oli Green', about: 'green tea only', fields: { Team: 'Kitchen' } })
    await shared.server.sendAs(oli, { conv, text: 'a cup?' })
    const p = await shared.open(nia, { route: `c/${conv}` })
    const row = p.page.locator('[data-key]', { has: p.page.locator('.bubble', { hasText: 'a cup?' }) })
    await row.focus()
    await p.page.keyboard.press('ArrowRight')
    await p.page.keyboard.press('Enter')
    const pane = p.page.getByRole('complementary', { name: 'Profile' })
    await pane.getByText('green tea only').waitFor()
    await pane.getByText('Kitchen').waitFor()
    await until('the focus is in the pane', () => pane.evaluate((e) => e.contains(document.activeElement)))
    await p.page.keyboard.press('Escape')
    await pane.waitFor({ state: 'detached' })
    await until('the focus is back at the message', () => row.evaluate((e) => e.contains(document.activeElement)))
    // From the list of members it goes back to the list.
    await p.go(`c/${conv}/info`)
    await p.page.getByRole('complementary').locator('.row', { hasText: `@${oli}` }).click()
    await p.page.getByRole('menuitem', { name: 'Show the profile' }).click()
    await pane.getByText('green tea only').waitFor()
    await pane.getByRole('button', { name: 'Back' }).press('Enter')
    await p.page.getByRole('complementary', { name: 'Info' }).waitFor()
    await p.message('a cup?').locator('.bubble-from').click()
    await pane.getByRole('button', { name: 'Write a message' }).click()
    await p.page.getByRole('heading', { name: 'Oli Green', level: 1 }).waitFor()
    await p.context.close()
  })

  test('pane and editor fit into 360 px', async () => {
    const { conv, users: [pia = '', quin = ''] } = await shared.group('Narrow', 'pia', 'quin')
    await update(quin, { displayName: 'Quin'.repeat(16), about: 'W'.repeat(140), handle: 'q'.repeat(20) + quin.replace(/\W/g, ''), fields: { ['N'.repeat(32)]: 'x'.repeat(512) } })
    const p = await shared.open(pia, { options: { viewport: { width: 360, height: 780 } } })
    const fits = async (): Promise<void> => {
      await drawn(p.page)
      assert.deepEqual(await p.page.evaluate(() => [...document.querySelectorAll<HTMLElement>('.info *, dialog *, .settings *')].filter((e) => e.getClientRects().length > 0 && e.getBoundingClientRect().right > innerWidth + 1 && !e.matches('.unseen, input, input *')).map((e) => e.outerHTML.slice(0, 100))), [])
    }
    await p.go(`c/${conv}/p/${quin}`)
    await p.page.getByText('W'.repeat(140)).waitFor()
    await fits()
    await edit(p)
    await p.page.getByLabel('About', { exact: true }).fill('x'.repeat(141))
    await p.page.getByText('1 character too many').waitFor()
    await fits()
    await p.context.close()
  })
})
