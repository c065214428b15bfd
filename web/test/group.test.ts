// Groups: who leads them, who leaves, and what others see of it.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Person, suiteMs } from './browser.js'
import { proxy } from './proxy.js'
import { Shared } from './shared.js'

describe('groups', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  /** Chooses something from the menu of a member. */
  async function member(p: Person, user: string, item: string): Promise<void> {
    await p.page.getByRole('complementary').locator('.row', { hasText: `@${user}` }).click()
    await p.page.getByRole('menuitem', { name: item }).click()
  }

  test('an admin is made and unmade, members come, the group is handed over, left and dissolved, and all see it', async () => {
    const { conv, users } = await shared.group('Band', 'anna', 'bert')
    const [third = ''] = await shared.users('cora')
    const [anna, bert] = await Promise.all(users.map((user) => shared.open(user, { route: `c/${conv}/info` }))) as [Person, Person]
    const cora = await shared.open(third)
    assert.equal(await bert.page.getByRole('button', { name: 'Rename' }).count(), 0) // a member does not lead
    await anna.page.getByText('To leave, hand the group over first.').waitFor()
    await member(anna, bert.user, 'Make admin')
    await bert.page.locator('.service', { hasText: new RegExp(`${anna.user} made you an admin`) }).waitFor()
    await bert.press('Rename')
    await bert.page.getByLabel('Name of the group').fill('Big band')
    await bert.press('Save')
    await anna.page.getByRole('heading', { name: 'Big band', level: 1 }).waitFor()
    await bert.press('Add members')
    await bert.page.getByLabel('Add by user name').fill(third)
    await bert.page.getByLabel('Add by user name').press('Enter')
    await bert.page.locator('.chip', { hasText: third }).waitFor()
    await bert.press('Add', 'dialog')
    await cora.row('Big band').click()
    await cora.page.getByText('3 members').first().waitFor()
    await member(anna, bert.user, 'Take admin away')
    await bert.page.getByRole('button', { name: 'Rename' }).waitFor({ state: 'detached' })
    // It is handed over and left.
    await member(anna, bert.user, 'Hand the group over')
    await anna.page.getByText(`Hand the group over to ${bert.user}? You stay as an admin.`).waitFor()
    await anna.press('Hand the group over', 'dialog')
    await bert.press('Dissolve the group')
    await bert.press('Cancel', 'dialog')
    await anna.press('Leave the group')
    await anna.press('Leave', 'dialog')
    await anna.page.getByText('You are not a member of this group any more.').waitFor()
    await cora.page.locator('.service', { hasText: `${anna.user} left` }).waitFor()
    await cora.say('two are left')
    await bert.message('two are left').waitFor()
    assert.equal(await anna.message('two are left').count(), 0)
    // And dissolved, with a field in which somebody writes.
    await cora.field.fill('half a wo')
    await bert.press('Dissolve the group')
    await bert.press('Dissolve', 'dialog')
    for (const p of [bert, cora]) {
      await p.page.getByText('The group was dissolved.').waitFor()
      await p.message('two are left').waitFor() // what was there can still be read
    }
    await cora.page.reload()
    await cora.message('two are left').waitFor()
    await cora.page.getByText('The group was dissolved.').waitFor()
    await Promise.all([anna, bert, cora].map((p) => p.context.close()))
  })

  test('who is typed and not chosen yet is taken along into a group; nobody of that name, and there is no group', async () => {
    const [user = '', zeno = '', yuma = ''] = await shared.users('xeno', 'zeno', 'yuma')
    const p = await shared.open(user)
    const [typed, dialog] = [p.page.getByLabel('Add by user name'), p.page.getByRole('dialog')]
    await p.press('Menu')
    await p.page.getByRole('menuitem', { name: 'New group' }).click()
    await p.page.getByLabel('Name of the group').fill('Typed')
    await typed.fill('nobody.at.all')
    await p.press('Create', 'dialog')
    await dialog.getByRole('alert').getByText('There is no such user.').waitFor()
    await typed.fill('two words')
    await p.press('Create', 'dialog')
    await dialog.getByRole('alert').getByText('A user name has Latin letters').waitFor()
    await typed.fill(`@${zeno}`)
    await p.press('Create', 'dialog')
    await dialog.waitFor({ state: 'detached' })
    await p.page.getByText('2 members').first().waitFor()
    assert.equal(await p.row('Typed').count(), 1)
    // The same when members are added, by keyboard: Enter adds who is typed, and with nobody typed it is the end.
    await p.page.locator('.chat-title').click()
    await p.press('Add members')
    await typed.fill(zeno)
    await typed.press('Enter')
    await dialog.getByRole('alert').getByText(`${zeno} is a member already.`).waitFor()
    await typed.fill(yuma)
    assert.equal(await dialog.getByRole('button', { name: 'Add', exact: true }).isEnabled(), true)
    await typed.press('Enter')
    await p.page.locator('.chip', { hasText: yuma }).waitFor()
    await p.page.waitForFunction(() => document.querySelector<HTMLInputElement>('dialog .picker input')?.value === '')
    await typed.press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await p.page.getByText('3 members').first().waitFor()
    await p.context.close()
  })

  test('a message to a group of which this browser has not heard yet is sent', async () => {
    const [ines = '', jana = ''] = await shared.users('ines', 'jana')
    const p = await shared.open(ines)
    await p.context.setOffline(true)
    await p.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor()
    const { conv } = await shared.server.admin('AdminService/CreateGroup', { title: 'New', members: [{ user: ines }, { user: jana }] }) as { conv: string }
    await p.go(`c/${conv}`)
    await p.say('early')
    await p.message('early').getByRole('img', { name: 'On its way' }).waitFor()
    await p.context.setOffline(false)
    await p.stored('early')
    await p.context.close()
  })

  test('who is removed while the group is open can neither write nor read on, and what they sent in vain says so', async () => {
    const { conv, users } = await shared.group('Club', 'dirk', 'elsa')
    const wire = await proxy(shared.server.url, '', (text) => text)
    const [dirk, elsa] = await Promise.all(users.map((user, i) => shared.open(user, { route: `c/${conv}`, address: i === 0 ? shared.server.url : wire.url }))) as [Person, Person]
    await dirk.say('before')
    await elsa.message('before').waitFor()
    await elsa.context.setOffline(true)
    wire.cut()
    await elsa.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor() // nobody could tell of what is sent while the connection ends
    await elsa.say('too late')
    await elsa.message('too late').getByRole('img', { name: 'On its way' }).waitFor()
    await dirk.go(`c/${conv}/info`)
    await member(dirk, elsa.user, 'Remove from the group')
    await dirk.page.getByText(`Remove ${elsa.user} from “Club”?`).waitFor()
    await dirk.press('Cancel', 'dialog')
    await member(dirk, elsa.user, 'Remove from the group')
    await dirk.press('Remove from the group', 'dialog')
    await dirk.page.getByText(/removed/).waitFor()
    await dirk.say('after')
    await dirk.stored('after')
    await elsa.context.setOffline(false)
    await elsa.page.getByText('You are not a member of this group any more.').waitFor()
    await elsa.message('too late').getByRole('img', { name: 'Not sent' }).waitFor()
    await elsa.message('too late').getByText('You are not a member of this conversation.').waitFor()
    assert.deepEqual(await elsa.texts(), ['before', 'too late'])
    assert.equal(await elsa.field.count(), 0)
    await elsa.press('Discard')
    await elsa.message('too late').waitFor({ state: 'detached' })
    assert.deepEqual(await dirk.texts(), ['before', 'after'])
    await Promise.all([dirk.context.close(), elsa.context.close()])
    wire.stop()
  })

  test('mentions: of one, of all, with a badge and a way to them; who has read a message', async () => {
    const { conv, users } = await shared.group('Team', 'finn', 'gala', 'hal')
    const [finn, gala] = [await shared.open(users[0] ?? '', { route: `c/${conv}` }), await shared.open(users[1] ?? '')] as const
    await finn.field.pressSequentially(`where is @${gala.user.slice(0, 3)}`)
    await finn.page.getByRole('option').first().waitFor()
    await finn.field.press('Tab')
    assert.equal(await finn.field.inputValue(), `where is @${gala.user} `)
    await finn.field.press('Enter')
    await finn.stored(`where is @${gala.user}`)
    for (let i = 0; i < 30; i++) await shared.server.sendAs(finn.user, { conv, text: `${i} ${'more '.repeat(40)}` })
    await finn.field.pressSequentially('@al')
    await finn.page.getByRole('option', { name: 'All members' }).click()
    await finn.field.pressSequentially('come')
    await finn.field.press('Enter')
    await gala.row('Team').getByRole('img', { name: '2 unread mentions of you' }).waitFor()
    await gala.row('Team').click()
    await gala.page.getByText('Unread messages').first().waitFor()
    await gala.page.locator('.mention', { hasText: `@${gala.user}` }).waitFor()
    await gala.page.getByRole('button', { name: 'To the next mention' }).click()
    await gala.page.locator('.mention', { hasText: '@all' }).waitFor()
    await gala.row('Team').locator('.badge').first().waitFor({ state: 'detached' })
    await finn.message('@all come').getByRole('img', { name: 'Read' }).waitFor()
    await finn.choose('@all come', 'Who has read it')
    const dialog = finn.page.getByRole('dialog')
    for (const heading of ['Read · 1', 'Not read yet · 1']) await dialog.getByRole('heading', { name: heading }).waitFor()
    assert.deepEqual((await dialog.locator('.row-text').allTextContents()).map((name) => name.replace(/^@/, '')), [gala.user, users[2]])
    await Promise.all([finn.context.close(), gala.context.close()])
  })

  test('of somebody with a long name who is typing the name is cut, and not that they are', async () => {
    const { conv, users: [petra = '', quirin = ''] } = await shared.group('Names', 'petra', 'quirin')
    const writes = await shared.open(quirin, { route: 'settings' })
    await writes.press('Edit the profile')
    await writes.page.getByLabel('Name', { exact: true }).fill('Quirin Wolfeschlegelsteinhausenbergerdorff of Bremen')
    await writes.press('Save', 'dialog')
    await writes.go(`c/${conv}`)
    await shared.server.sendAs(quirin, { conv, text: 'hello' })
    const reads = await shared.open(petra, { route: `c/${conv}`, options: { viewport: { width: 620, height: 700 } } })
    await reads.page.locator('.bubble-from', { hasText: 'Wolfeschlegel' }).waitFor()
    await writes.field.pressSequentially('hm')
    for (const where of [reads.page.locator('.chat-subtitle'), reads.row('Names')]) {
      const typing = where.locator('.typing', { hasText: 'Bremen is typing' })
      await typing.waitFor()
      const { right, edge } = await typing.locator('.dots').evaluate((dots) => ({ right: dots.getBoundingClientRect().right, edge: dots.closest('.cut:not(bdi)')?.getBoundingClientRect().right ?? 0 }))
      assert.ok(right > 0 && right <= edge + 1, `it ends at ${right} px, beyond ${edge} px`)
    }
    await Promise.all([writes.context.close(), reads.context.close()])
  })

  test('a message of which nobody can tell whether it was sent says so, and goes again only if the person wants', async () => {
    const { conv, users: [, iris = ''] } = await shared.group('Fog', 'hugo', 'iris')
    const p = await shared.open(iris)
    let lost = 0
    await p.page.routeWebSocket(/\/v1\/ws/, (ws) => { // the message goes out, and the connection ends before anybody can tell what became of it
      const there = ws.connectToServer()
      ws.onMessage((m) => {
        if (lost > 0 || !String(m).includes('in the fog')) return there.send(m)
        lost++
        void shared.server.admin('AdminService/ChangeMembers', { conv, change: { removed: [iris] } }).then(() => Promise.all([ws.close({ code: 4000 }), there.close()]))
      })
    })
    await p.page.reload()
    await p.ready()
    await p.go(`c/${conv}`)
    await p.say('in the fog')
    await p.message('in the fog').getByRole('img', { name: 'Nobody can tell whether it was sent' }).waitFor()
    await p.message('in the fog').getByText('If you send it again, it may be there twice.').waitFor()
    await shared.server.admin('AdminService/ChangeMembers', { conv, change: { added: [{ user: iris }] } })
    await p.field.waitFor()
    await p.page.reload()
    await p.message('in the fog').getByText('If you send it again').waitFor() // it is still not known
    await p.press('Send again')
    await p.stored('in the fog')
    assert.deepEqual([lost, await p.texts()], [1, ['in the fog']])
    await p.context.close()
  })

  test('of a large group a part is drawn, who leads comes first, others are found by name, and its members are read once', async () => {
    const { conv, users } = await shared.group('Fleet', ...Array.from({ length: 130 }, (_, i) => `sailor${i}of`))
    const [owner = ''] = users
    const p = await shared.open(users[120] ?? '')
    let reads = 0
    await p.page.routeWebSocket(/\/v1\/ws/, (ws) => {
      const there = ws.connectToServer()
      ws.onMessage((m) => {
        if (String(m).includes('ListMembers')) reads++
        there.send(m)
      })
    })
    await p.page.reload()
    await p.go(`c/${conv}/info`)
    const lines = p.page.getByRole('complementary').locator('li')
    await lines.first().waitFor()
    assert.equal(await lines.count(), 100)
    assert.match(await lines.first().textContent() ?? '', new RegExp(`@${owner}.*owner`))
    await p.press('Show 30 more')
    assert.equal(await lines.count(), 130)
    assert.equal(reads, 1)
    await p.page.getByRole('searchbox', { name: 'Search members' }).fill('@sailor99of')
    await lines.filter({ hasText: 'sailor99of' }).waitFor()
    assert.equal(await lines.count(), 1)
    await p.context.close()
  })
})
