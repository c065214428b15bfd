// Tabs of one account: one leads, and when it is closed, frozen or crashed, another one goes on.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CDPSession } from 'playwright-core'
import { type Person, suiteMs } from './browser.js'
import { Shared } from './shared.js'

describe('three tabs', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  interface Tabs {
    readonly peer: string
    readonly lead: Person
    readonly others: readonly [Person, Person]
    readonly devtools: CDPSession // of the one that leads
  }

  /** Three tabs of one browser at the same conversation. The first one has the connection. */
  async function threeTabs(name: string): Promise<Tabs> {
    const [user = '', peer = ''] = await shared.users(name, 'peer')
    const lead = await shared.open(user, { route: `u/${peer}` })
    await lead.say('before')
    await lead.stored('before')
    const others = await Promise.all([1, 2].map(() => shared.open(user, { route: `u/${peer}`, context: lead.context }))) as [Person, Person]
    await Promise.all(others.map((p) => p.message('before').waitFor()))
    return { peer, lead, others, devtools: await lead.context.newCDPSession(lead.page) }
  }

  /** Messages of two tabs without the one that led arrive once, in the same order everywhere. */
  async function goOn({ lead, peer, others: [two, three] }: Tabs): Promise<void> {
    await two.say('from the second')
    await three.stored('from the second')
    await shared.server.sendAs(peer, { user: lead.user, text: 'an answer' })
    await two.message('an answer').waitFor()
    await three.say('from the third')
    await two.stored('from the third')
    const other = await shared.open(peer, { route: `u/${lead.user}` })
    await other.message('from the third').waitFor()
    assert.deepEqual(await other.texts(), await two.texts())
    await other.context.close()
    for (const p of [two, three]) assert.deepEqual(await p.texts(), ['before', 'from the second', 'an answer', 'from the third'])
  }

  test('the one that leads is closed', async () => {
    const tabs = await threeTabs('carl')
    await tabs.lead.page.close()
    await goOn(tabs)
    await tabs.lead.context.close()
  })

  test('the one that leads is frozen, and thaws', async () => {
    const tabs = await threeTabs('fred')
    const { lead, devtools, others: [two] } = tabs
    await devtools.send('Debugger.enable')
    await devtools.send('Debugger.pause') // none of its code runs, and it keeps its lock
    const opened = Promise.any(tabs.others.map((p) => p.page.waitForEvent('websocket')))
    await goOn(tabs)
    await opened // another one has taken over
    await devtools.send('Debugger.disable')
    await lead.message('from the third').waitFor()
    await lead.say('after it has thawed')
    await two.stored('after it has thawed')
    assert.deepEqual(await lead.texts(), await two.texts())
    await lead.context.close()
  })

  test('the one that leads crashes, and is loaded again', async () => {
    const tabs = await threeTabs('cher')
    const { lead, devtools, others: [two] } = tabs
    const crashed = lead.page.waitForEvent('crash')
    void devtools.send('Page.crash').catch(() => {}) // nobody is left to answer
    await crashed
    await goOn(tabs)
    const again = await shared.open(lead.user, { route: `u/${tabs.peer}`, context: lead.context })
    await again.message('from the third').waitFor()
    await again.say('after the crash')
    await two.stored('after the crash')
    assert.deepEqual(await again.texts(), await two.texts())
    await lead.context.close()
  })
})
