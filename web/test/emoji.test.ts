// Where an emoji is chosen.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { suiteMs, until } from './browser.js'
import { Shared } from './shared.js'

describe('emojis', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  test('they have groups that one goes to by a press or by arrows, and the bar shows which one is in view', async () => {
    const [user = '', peer = ''] = await shared.users('ella', 'fred')
    const p = await shared.open(user, { route: `u/${peer}` })
    await p.press('Emoji')
    const bar = p.page.getByRole('toolbar', { name: 'Categories of emojis' })
    const here = bar.locator('[aria-current="true"]')
    const top = async (group: string): Promise<number> => p.page.evaluate((label) => {
      const list = document.querySelector('.emoji-groups') as HTMLElement
      return Math.round((list.querySelector(`section[aria-label="${label}"]`) as HTMLElement).getBoundingClientRect().top - list.getBoundingClientRect().top)
    }, group)
    await bar.waitFor()
    assert.equal(await here.getAttribute('aria-label'), 'Smileys')
    await bar.getByRole('button', { name: 'Flags' }).click()
    await until('flags are in view', async () => Math.abs(await top('Flags')) < 250 && await here.getAttribute('aria-label') === 'Flags')
    await bar.getByRole('button', { name: 'Food and drink' }).click()
    await until('food is at the top', async () => Math.abs(await top('Food and drink')) <= 8)
    await p.page.keyboard.press('ArrowRight')
    await until('travel is at the top', async () => Math.abs(await top('Travel')) <= 8 && await here.getAttribute('aria-label') === 'Travel')
    assert.equal(await p.page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Travel')
    await p.page.locator('.emoji-groups').evaluate((list) => list.scrollTo(0, 0))
    await until('the bar shows the first group', async () => await here.getAttribute('aria-label') === 'Smileys')
    await p.context.close()
  })

  test('those that were chosen last come first, in a skin tone that is kept; with the account they go', async () => {
    const [user = '', peer = ''] = await shared.users('gerd', 'hanne')
    await shared.server.sendAs(peer, { user, text: 'hello' })
    const p = await shared.open(user, { route: `u/${peer}` })
    const recent = p.page.locator('section[aria-label="Recent"] .emoji')
    await p.press('Emoji')
    const picker = p.page.getByRole('dialog', { name: 'Emoji' })
    await picker.getByRole('button', { name: 'grinning face', exact: true }).click()
    assert.equal(await recent.count(), 0)
    await p.press('Skin tone')
    await p.press('Medium skin tone')
    await picker.getByRole('searchbox').fill('thumbs up')
    await picker.getByRole('button', { name: 'thumbs up', exact: true }).click()
    await p.has('😀👍🏽')
    await p.field.press('Enter')
    // A reaction is chosen in the same way.
    await p.choose('hello', 'React with another emoji')
    const dialog = p.page.getByRole('dialog', { name: 'React', exact: true })
    await recent.first().waitFor()
    assert.deepEqual(await recent.evaluateAll((all) => all.map((e) => [e.textContent, e.getAttribute('aria-label')])), [['👍🏽', 'thumbs up'], ['😀', 'grinning face']])
    await recent.first().click()
    await dialog.waitFor({ state: 'detached' })
    await p.message('hello').getByRole('button', { name: '👍🏽, 1 person' }).waitFor()
    const kept = (): Promise<string[]> => p.page.evaluate((of) => Object.keys(localStorage).filter((key) => key.startsWith(`petrel:${of}:`)), user)
    assert.ok((await kept()).includes(`petrel:${user}:emoji`))
    await p.go('settings')
    await p.press('Log out')
    await p.press('Log out', 'dialog')
    await p.page.getByLabel('User name').waitFor()
    assert.deepEqual(await kept(), [])
    await p.context.close()
  })
})
