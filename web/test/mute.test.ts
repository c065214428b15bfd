// Conversations that disturb nobody for a time.
import { describe, test } from 'node:test'
import { suiteMs } from './browser.js'
import { Shared } from './shared.js'

describe('a muted conversation', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  for (const width of [390, 1440]) {
    test(`says until when, and disturbs again after that by itself, ${width} px wide`, async () => {
      const [user = '', peer = ''] = await shared.users('mila', 'peer')
      const p = await shared.open(user, { route: `u/${peer}`, options: { viewport: { width, height: 800 } } })
      await p.say('hello')
      await p.stored('hello')
      await p.page.clock.install()
      await p.page.locator('.chat-header').getByRole('button', { name: 'More' }).press('Enter') // by keyboard alone
      await p.page.getByRole('menuitem', { name: 'Mute' }).press('Enter')
      const times = p.page.getByRole('menu', { name: 'Mute for' })
      await times.waitFor()
      await times.getByRole('menuitem', { name: '1 hour' }).press('ArrowDown')
      await times.getByRole('menuitem', { name: '8 hours', exact: true }).press('Enter')
      await p.go(`u/${peer}/info`)
      const info = p.page.locator('.info')
      await info.getByText(/Muted until .*\d:\d\d/).waitFor()
      await info.getByRole('switch', { name: 'Notifications', checked: false }).waitFor()
      await p.page.clock.fastForward('07:59:00')
      await info.getByRole('switch', { name: 'Notifications', checked: false }).waitFor()
      await p.page.clock.fastForward('00:02:00')
      await info.getByRole('switch', { name: 'Notifications', checked: true }).waitFor()
      await info.getByText(/Muted/).waitFor({ state: 'detached' })
      // The switch asks for how long, and the list shows it and ends it.
      await info.getByRole('switch', { name: 'Notifications' }).click()
      await times.getByRole('menuitem', { name: 'Always' }).click()
      await info.getByText('Muted', { exact: true }).waitFor()
      await p.go(`u/${peer}`)
      await p.page.locator('.chat-header').getByRole('img', { name: 'Muted' }).waitFor()
      await p.page.evaluate((hash) => { location.hash = hash }, `#/${user}`)
      await p.row(peer).getByRole('img', { name: 'Muted' }).waitFor()
      await p.row(peer).click({ button: 'right' })
      await p.page.getByRole('menuitem', { name: 'Unmute' }).click()
      await p.row(peer).getByRole('img', { name: 'Muted' }).waitFor({ state: 'detached' })
      await p.context.close()
    })
  }
})
