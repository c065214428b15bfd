// Messages of strangers: the list of those that wait, and the answers to them.
import { describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { Person, suiteMs, until } from './browser.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('first messages', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  test('they wait in a list of their own until they are accepted or refused', async () => {
    const server = await Server.start() // the rule holds for all users of a server
    await server.admin('AdminService/SetFirstMessageRule', { firstMessages: 'FIRST_MESSAGES_REQUEST' })
    const links = await server.users('ada', 'ben', 'cleo')
    const open = async (user: string): Promise<Person> => (await Person.open(shared.browser, links[user] ?? '')).ready()
    const [ada, ben, cleo] = await Promise.all([open('ada'), open('ben'), open('cleo')])
    const folder = ben.page.getByRole('button', { name: /Message requests/ })
    await Promise.all([ada.go('u/ben'), cleo.go('u/ben')])
    for (const text of ['one', 'two', 'three', 'four', 'five', 'six']) await ada.say(text)
    await ada.page.getByText('Waits for an answer').waitFor()
    await ada.page.getByText('six', { exact: true }).last().click({ button: 'right' })
    await ada.page.getByRole('menuitem', { name: 'Discard' }).click()
    await ada.page.getByText('Waits for an answer').waitFor({ state: 'detached' })
    await cleo.say('buy my boat')

    await folder.getByText('2', { exact: true }).waitFor()
    assert.equal(await ben.page.title(), 'Petrel')
    assert.equal(await ben.page.locator('.sidebar .chat-row').count(), 0)
    await folder.click()
    await ben.page.locator('.chat-row', { hasText: 'five' }).click()
    await ben.page.getByText('ada is not among your contacts').waitFor()
    await ben.page.getByText('three').waitFor()
    await ben.page.locator('.chat-row', { hasText: 'buy my boat' }).click()
    await ben.page.getByText('cleo is not among your contacts').waitFor()
    await ben.page.getByRole('button', { name: 'Refuse' }).click()
    await ben.page.locator('.chat-row', { hasText: 'buy my boat' }).waitFor({ state: 'detached' })
    await until('the chat is left', () => !ben.page.url().includes('/u/'))
    await ben.go('u/cleo')
    await ben.page.getByText('You have refused messages of cleo').waitFor()
    await ben.go('settings')
    await ben.page.locator('.card', { hasText: 'Refused strangers' }).getByText('cleo').waitFor()
    await ben.page.getByRole('radiogroup', { name: 'Who may add you to groups' }).getByRole('radio', { name: 'Contacts', checked: true }).waitFor()

    await ada.page.getByRole('button', { name: 'Menu' }).click()
    await ada.page.getByRole('menuitem', { name: 'New group' }).click()
    await ada.page.getByLabel('Name of the group').fill('Boats')
    await ada.page.getByLabel('Add by user name or handle').fill('ben')
    await ada.page.getByRole('button', { name: 'Create' }).click()
    await ada.page.getByText('ben does not let you add them to groups').waitFor()
    await ada.page.getByRole('button', { name: 'Cancel' }).click()
    assert.equal(await ada.page.locator('.ticks-read').count(), 0)

    await ben.go('u/ada')
    await ben.page.getByRole('button', { name: 'Accept' }).click()
    await ben.page.getByText('ada is not among your contacts').waitFor({ state: 'detached' })
    await ben.page.getByText('No requests').waitFor()
    await ben.page.getByRole('button', { name: 'Back' }).first().click()
    await ben.page.locator('.sidebar .chat-row', { hasText: 'ada' }).waitFor()
    await Promise.all([ada, ben, cleo].map((p) => p.context.close()))
    await server.stop()
  })

  test('a user chooses what becomes of them', async () => {
    const server = await Server.start()
    const links = await server.users('dan', 'eva')
    const open = async (user: string): Promise<Person> => (await Person.open(shared.browser, links[user] ?? '')).ready()
    const dan = await open('dan')
    await dan.go('settings')
    await dan.page.getByRole('heading', { name: 'Account' }).waitFor()
    assert.equal(await dan.page.getByText('Messages of strangers').count(), 0) // without a rule there is no choice
    await server.admin('AdminService/SetFirstMessageRule', { firstMessages: 'FIRST_MESSAGES_OPEN' })
    await dan.page.reload()
    const choices = dan.page.getByRole('radiogroup', { name: 'Messages of strangers' })
    await choices.getByRole('radio', { name: 'Refuse' }).check()
    const eva = await open('eva')
    await eva.go('u/dan')
    await eva.say('hello?')
    await dan.page.reload()
    await choices.getByRole('radio', { name: 'Refuse', checked: true }).waitFor()
    await dan.go('u/dan')
    assert.equal(await dan.page.getByText('hello?').count(), 0)
    assert.equal(await dan.page.getByRole('button', { name: /Message requests/ }).count(), 0)
    await Promise.all([dan, eva].map((p) => p.context.close()))
    await server.stop()
  })
})
