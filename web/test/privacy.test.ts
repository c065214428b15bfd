// The user's choices in the settings about what others learn of the user.
import { describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { Person, suiteMs } from './browser.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('privacy', { timeout: suiteMs }, () => {
  const shared = Shared.use()

  test('whoever reads privately shows and sees no read ticks', async () => {
    const server = await Server.start()
    const links = await server.users('gus', 'hal')
    const open = async (user: string): Promise<Person> => (await Person.open(shared.browser, links[user] ?? '')).ready()
    const [gus, hal] = await Promise.all([open('gus'), open('hal')])
    const reading = hal.page.getByRole('switch', { name: 'Read privately' })
    await hal.go('settings')
    await reading.click()
    await reading.and(hal.page.locator('[aria-checked=true]')).waitFor()
    await Promise.all([gus.go('u/hal'), hal.go('u/gus')])
    await gus.say('are you there?')
    await hal.page.getByText('are you there?').last().waitFor()
    await hal.say('yes, and what is it?')
    await gus.page.getByText('yes, and what is it?').last().waitFor()
    await gus.say('a question')
    await hal.page.getByText('a question', { exact: true }).last().waitFor()
    await gus.page.locator('.ticks-delivered').nth(1).waitFor() // hal has read both, too
    await hal.page.locator('.ticks-stored').waitFor() // gus has it and has read it
    assert.equal(await gus.page.locator('.ticks-read').count() + await hal.page.locator('.ticks-read').count(), 0)

    await hal.go('settings')
    await reading.click()
    await reading.and(hal.page.locator('[aria-checked=false]')).waitFor()
    await hal.go('u/gus')
    await gus.say('nothing')
    await hal.page.getByText('nothing', { exact: true }).last().waitFor()
    await hal.say('fine')
    await gus.page.getByText('fine', { exact: true }).last().waitFor()
    await gus.page.locator('.ticks-read').nth(1).waitFor()
    await hal.page.locator('.ticks-read').nth(1).waitFor()
    await Promise.all([gus, hal].map((p) => p.context.close()))
    await server.stop()
  })
})
