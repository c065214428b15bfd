// An operator at the console of three nodes under load: what is wrong, what arrived, and what the operator changes.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Client, isPetrelError } from '@petrel-im/sdk'
import type { BrowserContextOptions, Locator } from 'playwright-core'
import { areTimesJudged, type Person, suiteMs } from './browser.js'
import { Cluster, Load, until } from './cluster.js'
import { confirm, makeOperator, openConsole } from './operator.js'
import { Shared } from './shared.js'

const verdictMs = 3000 // from the end of a node to what the operator sees of it, where times are judged
const dayMs = 86_400_000

describe('the console of a cluster', { timeout: suiteMs }, () => {
  const shared = Shared.use()
  let cluster: Cluster
  let load: Load
  let session: { readonly token: string; readonly name: string }
  let alice: Client
  const clients: Client[] = []
  const changed: (readonly [event: string, about: string])[] = [] // by the operator
  before(async () => {
    cluster = await Cluster.start()
    session = await makeOperator(cluster.node(1), 'carol')
    load = await Load.start(cluster)
    await cluster.node(1).users('alice', 'bob')
    alice = await connect('alice', 1)
  })
  after(async () => {
    await Promise.all(clients.map((c) => c.close()))
    await load.stop()
    await cluster.stop()
    assert.deepEqual(load.refused, [])
  })

  const admin = (method: string, request: object): Promise<unknown> => cluster.node(1).admin(`AdminService/${method}`, request)
  /** Connects somebody to a node, as a device if there is a token for one. */
  const connect = async (user: string, node: number, device?: { readonly id: string; readonly token: string }): Promise<Client> => {
    const client = new Client({ url: cluster.node(node).url, token: device?.token ?? cluster.node(1).tokens[user] ?? '', ...(device ? { device: device.id } : {}) })
    clients.push(client)
    client.connect()
    await until(`${user} is connected`, () => client.status().state === 'live')
    return client
  }
  const logIn = async (user: string, id: string): Promise<{ readonly id: string; readonly token: string }> => ({ id, token: (await admin('MintToken', { user, device: { id, kind: id, name: `the ${id} of ${user}` } }) as { accessToken: string }).accessToken })
  const groupOf = async (...members: readonly string[]): Promise<string> => (await admin('CreateGroup', { title: members.join(' and '), members: members.map((user, i) => i === 0 ? { user, role: 'ROLE_OWNER' } : { user }) }) as { conv: string }).conv

  /** The console as a node serves it. */
  const open = (page = '', node = 1, options: BrowserContextOptions = {}): Promise<Person> => openConsole(shared.browser, cluster.node(node), session, page, options)
  const row = (p: Person, name: string): Locator => p.page.getByRole('row', { name: new RegExp(`^${name}\\b`) })
  const well = (p: Person): Promise<void> => p.page.locator('.verdict', { hasText: 'All is well' }).waitFor()
  const told = (p: Person, text: RegExp): Promise<void> => p.page.locator('.toast', { hasText: text }).waitFor()
  /** Goes there as a link of the console does, without a load. */
  const show = (p: Person, to: string): Promise<void> => p.page.evaluate((path) => {
    history.pushState(null, '', path)
    dispatchEvent(new Event('petrel-moved'))
  }, `/admin/${to}`)
  /** The numbers with which the lines begin that a dialog shows until it closes. */
  const progress = (p: Person): Promise<number[]> => p.page.evaluate(() => new Promise((resolve) => {
    const seen: number[] = []
    const look = (): void => {
      const line = document.querySelector('dialog .progress')?.textContent
      if (line) seen.push(parseInt(line))
      if (document.querySelector('dialog')) requestAnimationFrame(look)
      else resolve(seen)
    }
    look()
  }))
  /** Presses the button of a dialog, which has to say what changes, and keeps in mind what the audit log has to have. */
  const change = async (p: Person, button: string, from: string, to: string, event: string, about: string): Promise<void> => {
    await confirm(p, button, from, to)
    changed.push([event, about])
  }

  test('the overview has three nodes, and what they do in this second', async (t) => {
    const p = await open()
    await well(p)
    await p.page.getByText('3 of 3 nodes answer').waitFor()
    for (const node of ['node1', 'node2', 'node3']) await row(p, node).getByText('up', { exact: true }).waitFor()
    const figure = async (name: string): Promise<number> => parseFloat(await p.page.locator('.metric', { has: p.page.getByText(name, { exact: true }) }).locator('dd').innerText())
    const rates = await until('rates of the load', async () => {
      const [offered, accepted, delivered, connections] = await Promise.all(['Offered', 'Accepted', 'Delivered', 'Connections'].map(figure)) as [number, number, number, number]
      return offered >= 10 && accepted >= 10 && delivered >= 10 && connections >= 7 && { offered, accepted, delivered, connections }
    })
    t.diagnostic(JSON.stringify(rates))
    for (const node of ['node1', 'node2', 'node3']) assert.ok(parseFloat(await row(p, node).getByRole('cell').nth(4).innerText()) >= 2, `${node} has clients`)
    await p.context.close()
  })

  test('a trace says who has a message, who has to come back for it, and who was refused', async () => {
    await connect('bob', 2)
    const phone = await logIn('dave', 'phone')
    const conv = await groupOf('alice', 'bob', 'dave')
    const sent = await alice.send({ conv, text: 'The crane is free.' })
    await sent.wait()
    const p = await open('trace')
    const ask = async (clientMsgId: string): Promise<void> => {
      await p.page.getByLabel('Sender', { exact: true }).fill('alice')
      await p.page.getByLabel('Client message id').fill(clientMsgId)
      await p.press('Trace')
    }
    await ask(sent.id)
    await row(p, 'bob').getByText('delivered', { exact: true }).waitFor()
    await row(p, 'dave').getByText('offline', { exact: true }).waitFor()
    await row(p, 'dave').getByText('Not connected: phone').waitFor()
    await connect('dave', 3, phone)
    await row(p, 'dave').getByText('delivered', { exact: true }).waitFor()
    await row(p, 'dave').getByText(/phone · node3/).waitFor()
    const closed = await groupOf('alice', 'bob')
    await admin('FreezeConversation', { conv: closed, frozen: true })
    const refused = await alice.send({ conv: closed, text: 'Hello?' })
    await assert.rejects(refused.wait(), (e) => isPetrelError(e) && e.code === 'frozen')
    await ask(refused.id)
    await p.page.getByText('A server refused it').waitFor()
    await p.page.getByRole('cell', { name: 'frozen', exact: true }).first().waitFor()
    await p.context.close()
  })

  test('a trace names the node that stands still, and sees it go on', async (t) => {
    const p = await open('trace')
    /** Whether the page showed it in time: after 2 s the others count the node as gone, and its client goes elsewhere. */
    const showsSilence = async (user: string): Promise<boolean> => {
      await cluster.node(1).users(user)
      const conv = await until('a conversation of node1', async () => {
        const id = await groupOf('alice', user)
        return (await admin('GetConversation', { conv: id }) as { owner?: string }).owner === 'node1' && id
      })
      await connect(user, 3)
      let silentMs = 0
      await until('node1 has just seen a heartbeat of node3', async () => {
        const before = silentMs
        silentMs = (await cluster.seen(1)).of(3).silentMs ?? 0
        return silentMs < before
      })
      const begun = Date.now()
      const thaw = await cluster.node(3).freeze()
      const silent = row(p, user).getByText('node is silent', { exact: true })
      let shown = false
      try {
        const { seq } = await (await alice.send({ conv, text: 'Are you there?' })).wait()
        await show(p, `trace?conv=${conv}&seq=${seq}`)
        await silent.or(row(p, user).getByText(/^(offline|delivered)$/)).waitFor()
        shown = await silent.isVisible()
        if (shown) await row(p, user).getByText('Node node3.').waitFor()
        t.diagnostic(`${shown ? 'shown' : 'too late'}, ${Date.now() - begun} ms after the node stood still`)
      } finally {
        thaw()
      }
      await row(p, user).getByText('delivered', { exact: true }).waitFor()
      await cluster.settled()
      return shown
    }
    let shown = false
    for (let i = 0; i < 10 && !shown; i++) shown = await showsSilence(`erin${i}`)
    assert.ok(shown, 'no answer has come while the node was silent, ten times')
    await p.context.close()
  })

  test('a node is drained and resumed, with progress', async (t) => {
    const p = await open('cluster')
    const shares = row(p, 'node3').getByText(/^(\d+) \/ \1$/)
    const [owned = ''] = (await shares.innerText()).split(' / ')
    await row(p, 'node3').getByRole('button', { name: 'Drain' }).click()
    const left = progress(p)
    await change(p, 'Drain', owned, '0', 'DrainNode', 'node3')
    await told(p, new RegExp(`^node3 is drained, after .*: partitions ${owned}, clients [1-9]`))
    t.diagnostic(`partitions left: ${[...new Set(await left)].join(', ')}`)
    assert.ok((await left).length > 0 && (await left).every((n, i, all) => n <= (all[i - 1] ?? Number(owned))), 'what is left is shown, and falls')
    await row(p, 'node3').getByText('0 / 0', { exact: true }).waitFor()
    await p.page.getByRole('link', { name: 'Overview' }).click()
    const incident = p.page.locator('.incident-degraded', { hasText: 'node3' })
    await incident.getByRole('link', { name: 'Cluster' }).click()
    await row(p, 'node3').getByRole('button', { name: 'Resume' }).click()
    await change(p, 'Resume', 'draining', 'up', 'ResumeNode', 'node3')
    await row(p, 'node3').getByText('up', { exact: true }).waitFor()
    await row(p, 'node3').getByText(new RegExp(`^${owned} / ${owned}$`)).waitFor()
    await p.context.close()
  })

  test('a partition moves to another database while it is in use', async () => {
    const p = await open('cluster')
    await p.page.getByText('1: 128, 2: 128', { exact: true }).waitFor()
    await p.press('Move a partition')
    await p.page.getByLabel('Partition', { exact: true }).fill('6')
    await p.page.getByLabel('Number of the database').fill('2')
    await change(p, 'Move', 'its database', 'Database 2', 'MovePartition', '6')
    await told(p, /^Partition 6 is in database 2, after \d/)
    await p.page.getByText('1: 127, 2: 129', { exact: true }).waitFor()
    await p.context.close()
  })

  test('a failure is told also to an operator who has closed the dialog', async () => {
    const p = await open('cluster')
    let refuse = (): void => {}
    await p.page.route('**/ResumeNode', async (route) => {
      await new Promise<void>((resolve) => {
        refuse = resolve
      })
      await route.fulfill({ status: 503, headers: { 'Petrel-Error': 'not_now' }, json: { message: 'node2 is being drained' } })
    })
    await admin('DrainNode', { node: 'node2' })
    await row(p, 'node2').getByRole('button', { name: 'Resume' }).click()
    await Promise.all([p.page.waitForRequest('**/ResumeNode'), p.press('Resume', 'dialog')])
    await p.press('Cancel', 'dialog')
    await p.press('Rebalance')
    refuse()
    await told(p, /^Resume node2\? The cluster cannot do this now\. node2 is being drained/)
    await p.page.getByRole('dialog', { name: 'Rebalance the cluster?' }).waitFor() // which stays open
    await admin('ResumeNode', { node: 'node2' })
    await cluster.settled()
    await p.context.close()
  })

  test('a node that is killed while the operator looks on is an incident until it is back', async (t) => {
    const p = await open()
    await well(p)
    const begun = Date.now()
    await cluster.node(2).kill('SIGKILL')
    try {
      await Promise.all([
        p.page.locator('.verdict-critical').waitFor(), p.page.locator('.incident-critical', { hasText: 'node node2 does not answer' }).waitFor(),
        p.page.waitForFunction(() => document.title.startsWith('🔴 Overview')),
      ])
      const took = Date.now() - begun
      t.diagnostic(`critical after ${took} ms`)
      assert.ok(took <= verdictMs || !areTimesJudged, `critical after ${took} ms`)
      await row(p, 'node2').getByText(/^(silent|gone)$/).waitFor()
      await p.page.locator('.verdict-degraded').waitFor() // the others serve its partitions
      t.diagnostic(`degraded after ${Date.now() - begun} ms`)
    } finally {
      await cluster.node(2).run()
    }
    await well(p)
    t.diagnostic(`well after ${Date.now() - begun} ms`)
    await p.context.close()
  })

  test('every page says at once that the node which serves it does not answer, and since when', async (t) => {
    const p = await open('cluster', 2, { timezoneId: 'UTC' })
    await row(p, 'node1').getByText('up', { exact: true }).waitFor()
    await p.page.getByRole('navigation').getByRole('img', { name: 'All is well' }).waitFor()
    const begun = Date.now()
    await cluster.node(2).kill('SIGKILL')
    const silence = p.page.getByRole('alert').filter({ hasText: 'has not answered since' })
    try {
      await silence.waitFor()
      const took = Date.now() - begun
      t.diagnostic(`said after ${took} ms`)
      assert.ok(took <= verdictMs || !areTimesJudged, `said after ${took} ms`)
      const text = await silence.innerText()
      const [, since = ''] = /since (\d\d:\d\d:\d\d)\./.exec(text) ?? []
      const late = (Date.parse(`1970-01-01T${since}Z`) + 1000 - begun % dayMs + dayMs) % dayMs // the clock shows whole seconds
      assert.ok(late <= took + 2000, `${text}, ${new Date(begun).toISOString()}`)
      assert.match(text, /\(node1, node3\)/)
      assert.match(await p.page.title(), /^🔴 Cluster/)
      await p.page.getByRole('link', { name: 'Overview' }).click()
      await p.page.locator('.verdict-critical').waitFor()
      assert.ok(await silence.isVisible())
    } finally {
      await cluster.node(2).run()
    }
    await silence.waitFor({ state: 'detached' })
    await well(p)
    await p.context.close()
  })

  test('a node that was lost again and again waits for partitions, and is given them by a rebalance', async (t) => {
    const p = await open('cluster')
    for (let i = 0; i < 2; i++) await cluster.node(2).restart() // it was killed twice before: the others let it wait for 8 s
    await row(p, 'node2').getByText('waits', { exact: true }).waitFor()
    await p.press('Rebalance')
    await p.page.getByRole('dialog').getByRole('row', { name: 'node2 0 partitions about 85 partitions' }).waitFor()
    const left = progress(p)
    await change(p, 'Rebalance', '128 partitions', 'about 85 partitions', 'RebalanceCluster', '')
    await told(p, /^Each node has its share\.$/)
    t.diagnostic(`partitions left: ${[...new Set(await left)].join(', ')}`)
    assert.ok((await left).length > 0, 'what is left is shown')
    await row(p, 'node2').getByText('up', { exact: true }).waitFor()
    await row(p, 'node2').getByText(/^8[456] \/ 8[456]$/).waitFor()
    await p.context.close()
  })

  test('registration is set to invitations, and an invitation lets one person in', async () => {
    const p = await open('tenants')
    await row(p, 'default').getByRole('button', { name: 'Change' }).click()
    await p.page.getByRole('radio', { name: 'by invitation' }).check()
    await change(p, 'Change', 'as configured', 'by invitation', 'SetRegistration', 'default')
    await row(p, 'default').getByRole('cell', { name: 'by invitation' }).nth(1).waitFor() // as it was set, and what holds now
    await row(p, 'default').getByRole('button', { name: 'Invite' }).click()
    await change(p, 'Create', '–', '1 account, within 7 days', 'CreateInvitation', 'default')
    const code = await p.page.locator('.secret code').innerText()
    await p.press('I have kept it', 'dialog')
    const register = async (user: string, invitation: string): Promise<number> => (await fetch(`${cluster.node(3).url}/petrel.v1.AuthService/Register`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ user, password: 'gannet cormorant auk', device: { id: 'web', kind: 'web' }, invitation }),
    })).status
    assert.equal(await register('fay', ''), 403)
    assert.equal(await register('fay', code), 200)
    assert.equal(await register('gus', code), 403) // it was for one
    await p.context.close()
  })

  test('one device of a user is logged out, then all, and their connections end', async (t) => {
    const phone = await connect('hana', 1, await logIn('hana', 'phone'))
    const desktop = await connect('hana', 3, await logIn('hana', 'desktop'))
    const p = await open('users/hana')
    const devices = p.page.getByRole('table', { name: 'Devices' })
    const device = (name: string): Locator => devices.getByRole('row', { name: `the ${name} of hana` })
    const ended = async (client: Client, begun: number): Promise<void> => {
      await until('the client is logged out', () => client.status().error?.code === 'revoked')
      const took = Date.now() - begun
      t.diagnostic(`the client has ended ${took} ms after the click`)
      assert.ok(took <= 5000 || !areTimesJudged, `the client has ended after ${took} ms`)
    }
    await device('desktop').getByText('online', { exact: true }).waitFor()
    await device('phone').getByRole('button', { name: 'Log out' }).click()
    let begun = Date.now()
    await change(p, 'Log out', 'logged in', 'logged out', 'RevokeDevice', 'phone')
    await ended(phone, begun)
    await device('phone').getByText('logged out', { exact: true }).waitFor()
    assert.equal(desktop.status().state, 'live')
    await p.press('Log out everywhere')
    begun = Date.now()
    await change(p, 'Log out everywhere', '1 logged in', '0 logged in', 'RevokeTokens', 'hana')
    await ended(desktop, begun)
    await device('desktop').getByText('logged out', { exact: true }).waitFor()
    await p.page.getByText('Not connected.', { exact: true }).waitFor()
    await p.context.close()
  })

  test('the audit log has what the operator has changed, as every node tells it', async () => {
    assert.deepEqual(changed.map(([event]) => event).sort(), ['CreateInvitation', 'DrainNode', 'MovePartition', 'RebalanceCluster', 'ResumeNode', 'RevokeDevice', 'RevokeTokens', 'SetRegistration'])
    const p = await open('audit?who=carol', 3)
    for (const [event, about] of changed) await p.page.getByRole('row', { name: event }).filter({ hasText: about }).filter({ hasText: 'carol' }).first().waitFor()
    await p.page.getByRole('row', { name: 'SetRegistration' }).getByText('registration: REGISTRATION_UNSPECIFIED → REGISTRATION_INVITATION').waitFor()
    await p.press('Verify')
    await p.page.getByText(/^Whole: \d+ records read$/).waitFor()
    await p.context.close()
  })
})
