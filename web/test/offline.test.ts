// A chat while its connection, its server or a clock fails.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Person, profile, suiteMs, until } from './browser.js'
import { proxy } from './proxy.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

describe('a chat that is cut off', { timeout: suiteMs, concurrency: 3 }, () => {
  const shared = Shared.use()

  test('who was offline sees what all have written in one order, each message once', async () => {
    const { conv, users } = await shared.group('Crew', 'olga', 'paul', 'quin')
    const [olga, paul, quin] = await Promise.all(users.map((user) => shared.open(user, { route: `c/${conv}` }))) as [Person, Person, Person]
    await olga.say('all here')
    await Promise.all([paul.message('all here').waitFor(), quin.message('all here').waitFor()])
    await olga.context.setOffline(true)
    for (const i of [1, 2, 3]) {
      await olga.say(`olga ${i}`)
      await paul.say(`paul ${i}`)
      await quin.say(`quin ${i}`)
    }
    await paul.stored('paul 3')
    await quin.message('paul 3').waitFor()
    await paul.message('quin 3').waitFor()
    assert.deepEqual(await olga.texts(), ['all here', 'olga 1', 'olga 2', 'olga 3'])
    assert.equal(await olga.page.locator('.message').getByRole('img', { name: 'On its way' }).count(), 3)
    await olga.context.setOffline(false)
    for (const p of [olga, paul, quin]) {
      for (const name of ['olga', 'paul', 'quin']) await p.message(`${name} 3`).waitFor()
      await p.page.waitForFunction(() => document.querySelectorAll('.message .body').length === 10)
    }
    await olga.stored('olga 3')
    const order = await olga.texts()
    assert.equal(new Set(order).size, 10)
    for (const p of [paul, quin]) assert.deepEqual(await p.texts(), order)
    for (const name of ['olga', 'paul', 'quin']) assert.deepEqual(order.filter((text) => text.startsWith(name)), [1, 2, 3].map((i) => `${name} ${i}`))
    await Promise.all([olga, paul, quin].map((p) => p.context.close()))
  })

  test('a message that waits says why, in its place', async () => {
    const [user = '', peer = ''] = await shared.users('oda', 'piet')
    const context = await profile(shared.browser)
    let full = true
    await context.routeWebSocket(/\/v1\/ws$/, (page) => {
      const server = page.connectToServer()
      page.onMessage((frame) => {
        const { id, send } = JSON.parse(String(frame)) as { readonly id?: string; readonly send?: object }
        if (full && send) page.send(JSON.stringify({ id, error: { code: 'disk_full', message: 'there is no room', retryable: true, retryAfterMs: 1000 } }))
        else server.send(frame)
      })
    })
    const oda = await shared.open(user, { route: `u/${peer}`, context })
    await oda.say('is there room?')
    const why = oda.page.locator('.wait-line', { hasText: 'The disk of the server is full. This goes out as soon as there is room.' })
    await why.waitFor()
    await oda.say('and for this?')
    await oda.message('and for this?').waitFor()
    assert.equal(await oda.page.locator('li', { has: oda.message('and for this?') }).locator('.wait-line').count(), 1)
    assert.equal(await why.count(), 1) // below the newest one
    full = false
    await oda.stored('and for this?')
    await why.waitFor({ state: 'detached' })
    await context.setOffline(true)
    await oda.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor()
    await oda.say('from a tunnel')
    await oda.page.locator('.wait-line', { hasText: 'Goes out as soon as there is a connection' }).waitFor()
    await context.close()
  })

  test('a message that is written while the server is away has the page try again at once', async () => {
    const [user = '', peer = ''] = await shared.users('otto', 'paula')
    const context = await profile(shared.browser)
    const open = new Set<() => void>()
    let away = false
    let tries = 0
    await context.routeWebSocket(/\/v1\/ws$/, (page) => {
      tries++
      if (away) return void page.close({ code: 4000 })
      const server = page.connectToServer()
      open.add(() => void Promise.all([page.close({ code: 4000 }), server.close()]))
    })
    await context.clock.install()
    const p = await shared.open(user, { route: `u/${peer}`, context })
    await p.say('one')
    await p.stored('one')
    away = true
    for (const end of open) end()
    await p.page.locator('.connection', { hasText: 'Reconnecting' }).waitFor()
    await context.clock.pauseAt(await p.page.evaluate(() => Date.now() + 60_000)) // no timer ends from here on
    let before = -1
    for (let same = 0; same < 50; same++) { // a try that a timer began before is over then
      await p.page.evaluate(() => 0)
      if (tries !== before) same = 0
      before = tries
    }
    away = false
    await p.say('two')
    await until('the page tries again', () => tries > before)
    await context.clock.resume()
    await p.stored('two')
    await context.close()
  })

  test('who writes faster than the server takes is told so by the field', async () => {
    const server = await Server.start({ PETREL_LIMITS__SENDS_PER_S: '1', PETREL_LIMITS__SEND_BURST: '1' })
    const made = await server.users('quirin', 'resi')
    const p = await (await Person.open(shared.browser, made['quirin'] ?? '')).ready()
    await p.go('u/resi')
    for (let i = 1; i <= 6; i++) await p.say(`message ${i}`)
    await p.page.getByRole('status').filter({ hasText: /^You write faster than the server takes: \d messages wait$/ }).waitFor()
    await p.page.locator('.wait-line', { hasText: 'Waits for its turn' }).waitFor()
    await p.stored('message 6')
    for (const line of ['.wait-line', '.composer-length']) await p.page.locator(line).waitFor({ state: 'detached' })
    await p.context.close()
    await server.stop()
  })

  test('a message that waits can be copied', async () => {
    const [user = '', peer = ''] = await shared.users('rosa', 'saul')
    const context = await profile(shared.browser, { permissions: ['clipboard-read', 'clipboard-write'] })
    const p = await shared.open(user, { route: `u/${peer}`, context })
    await context.setOffline(true)
    await p.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor()
    await p.say('in a tunnel')
    await p.choose('in a tunnel', 'Copy text')
    await p.page.getByRole('status').getByText('Copied').waitFor()
    assert.equal(await p.page.evaluate(() => navigator.clipboard.readText()), 'in a tunnel')
    await p.message('in a tunnel').hover()
    await p.message('in a tunnel').getByRole('button', { name: 'More' }).click()
    assert.deepEqual(await p.page.getByRole('menuitem').allTextContents(), ['Copy text']) // nobody can take it back: it may be sent already
    await p.page.keyboard.press('Escape')
    await context.setOffline(false)
    await p.stored('in a tunnel')
    await context.close()
  })

  test('an edit that waits shows its text, with a clock, and the next one begins with it', async () => {
    const [user = '', peer = ''] = await shared.users('tilda', 'uwe')
    const p = await shared.open(user, { route: `u/${peer}` })
    await p.say('one')
    await p.stored('one')
    await p.context.setOffline(true)
    await p.page.locator('.connection', { hasText: 'Waiting for the network' }).waitFor()
    for (const [was, is] of [['one', 'two'], ['two', 'three']] as const) {
      await p.field.press('ArrowUp')
      await p.has(was)
      await p.say(is)
      await p.message(is).getByRole('img', { name: 'On its way' }).waitFor()
    }
    await p.row(peer).getByText('three').waitFor() // in the list too
    assert.deepEqual(await p.texts(), ['three'])
    await p.context.setOffline(false)
    await p.stored('three')
    const other = await shared.open(peer, { route: `u/${user}` })
    await other.message('three').waitFor()
    await Promise.all([p.context.close(), other.context.close()])
  })

  test('without a connection for long one calm line says so, and the page can still be read and written in', async () => {
    const server = await Server.start()
    const made = await server.users('rita', 'sven')
    const rita = await (await Person.open(shared.browser, made['rita'] ?? '')).ready()
    await rita.go('u/sven')
    await rita.say('before the crash')
    await rita.stored('before the crash')
    await rita.field.pressSequentially('half a wo')
    await server.kill('SIGKILL')
    await rita.page.locator('.connection', { hasText: 'Reconnecting…' }).waitFor()
    await rita.field.pressSequentially('rd') // the line took neither the focus nor the field
    assert.equal(await rita.field.inputValue(), 'half a word')
    assert.equal(await rita.field.evaluate((f) => f === document.activeElement), true)
    await rita.field.press('Enter')
    await rita.message('half a word').getByRole('img', { name: 'On its way' }).waitFor()
    await server.run()
    await rita.stored('half a word')
    await rita.page.locator('.connection', { hasText: 'Reconnecting…' }).waitFor({ state: 'detached' })
    await rita.context.close()
    await server.stop()
  })

  test('a store that is put back under the page: what it lost is gone, what comes is shown, what was on its way arrives once', async () => {
    const server = await Server.start()
    const made = await server.users('tina', 'udo')
    const [tina, udo] = await Promise.all(['tina', 'udo'].map(async (user) => (await Person.open(shared.browser, made[user] ?? '')).ready())) as [Person, Person]
    await Promise.all([tina.go('u/udo'), udo.go('u/tina')])
    await tina.say('in the backup')
    await udo.message('in the backup').waitFor()
    await server.backUp()
    for (const text of ['lost one', 'lost two', 'lost three']) await tina.say(text)
    await udo.message('lost three').waitFor()
    await tina.row('udo').waitFor()
    await server.kill('SIGKILL')
    await udo.say('on its way')
    await udo.message('on its way').getByRole('img', { name: 'On its way' }).waitFor()
    await server.putBack()
    await server.run()
    await udo.stored('on its way')
    await tina.message('on its way').waitFor()
    await tina.say('a new one')
    await udo.message('a new one').waitFor()
    for (const p of [tina, udo]) assert.deepEqual(await p.texts(), ['in the backup', 'on its way', 'a new one'])
    await tina.page.reload()
    await tina.message('a new one').waitFor()
    assert.deepEqual(await tina.texts(), ['in the backup', 'on its way', 'a new one'])
    await Promise.all([tina.context.close(), udo.context.close(), server.stop()])
  })

  for (const hours of [-30, 30]) {
    test(`an own clock that is wrong by ${hours} hours changes neither order nor login`, async () => {
      const [user, peer] = [shared.name('vera'), shared.name('will')]
      await shared.server.users(peer)
      const context = await profile(shared.browser)
      await context.addInitScript((ms) => {
        const { now } = Date
        const Real = Date
        globalThis.Date = class extends Real {
          constructor(...args: readonly unknown[]) {
            super(...(args.length === 0 ? [now() + ms] : args) as [number])
          }

          static override now(): number {
            return now() + ms
          }
        } as DateConstructor
      }, hours * 3_600_000)
      const vera = await Person.open(context, shared.server.url)
      await vera.press('Make a new account')
      await vera.page.getByLabel('User name').fill(user)
      await vera.page.getByLabel('Password').fill('a long password')
      await vera.press('Sign up')
      await vera.ready()
      await vera.go(`u/${peer}`)
      await vera.say('one')
      await vera.stored('one')
      await shared.server.sendAs(peer, { user, text: 'two' })
      await vera.message('two').waitFor()
      await context.setOffline(true)
      await vera.say('three')
      await vera.message('three').getByRole('img', { name: 'On its way' }).waitFor()
      assert.deepEqual(await vera.texts(), ['one', 'two', 'three'])
      assert.equal(await vera.page.locator('.timeline').getByRole('region').count(), 1) // of one day, whatever the clock says
      await shared.server.sendAs(peer, { user, text: 'four' })
      await context.setOffline(false)
      await vera.stored('three')
      await vera.message('four').waitFor()
      assert.deepEqual(await vera.texts(), ['one', 'two', 'four', 'three'])
      await vera.page.reload()
      await vera.message('three').waitFor()
      assert.deepEqual(await vera.texts(), ['one', 'two', 'four', 'three'])
      assert.equal(await vera.page.locator('.line-message .message').count(), 4)
      await context.close()
    })
  }

  test('without a network the worker answers for the page and its files, and for nothing else', async () => {
    const [user = ''] = await shared.users('zita')
    const { page, context } = await shared.open(user)
    await page.waitForFunction(() => navigator.serviceWorker.controller?.state === 'activated')
    await context.setOffline(true)
    const answers = await page.evaluate(async () => {
      const ask = (path: string): Promise<number> => fetch(path).then((a) => a.status, () => 0)
      const script = document.querySelector('script')?.src ?? ''
      return {
        own: await Promise.all(['/', script, '/manifest.webmanifest'].map(ask)),
        others: await Promise.all(['/v1/ws', '/v1/anything', '/petrel.v1.AuthService/Login', '/docs', '/openapi.json', '/readyz', '/admin/', '/embed/petrel-chat.js'].map(ask)),
      }
    })
    assert.deepEqual(answers, { own: [200, 200, 200], others: [0, 0, 0, 0, 0, 0, 0, 0] })
    await context.close()
  })

  test('the page says when the server has a newer one, and loads it when the person wants', async () => {
    let version = ''
    const front = await proxy(shared.server.url, '/sw.js', (text) => text.replace(/const version = ["']/, `$&${version}`))
    const [user = ''] = await shared.users('xena')
    const xena = await shared.open(user, { route: `u/${user}`, address: front.url })
    await xena.page.waitForFunction(() => navigator.serviceWorker.controller?.state === 'activated')
    const ofOldPage = '/assets/of-the-old-page.js' // the server has it no more
    await xena.page.evaluate(async (file) => (await caches.open((await caches.keys())[0] ?? '')).put(file, new Response('old')), ofOldPage)
    version = 'newer'
    await xena.field.fill('a draft')
    front.cut() // as a restart of the server does
    await xena.page.getByText('A newer version is here.').waitFor()
    assert.equal(await xena.page.evaluate(async (file) => (await fetch(file)).text(), ofOldPage), 'old')
    version = 'newest'
    await xena.page.evaluate(async () => void await (await navigator.serviceWorker.getRegistration())?.update())
    const versions = (): Promise<string> => xena.page.evaluate(async () => (await caches.keys()).map((name) => name.replace(/[0-9a-f]{16}$/, '')).join())
    await until('there is no more than one version before the newest', async () => await versions() === 'petrel-newer,petrel-newest')
    assert.equal(await xena.page.evaluate(async (file) => (await fetch(file)).status, ofOldPage), 404)
    await xena.page.locator('.update').getByRole('button', { name: 'Reload' }).click()
    await xena.page.getByText('A newer version is here.').waitFor({ state: 'detached' })
    await xena.ready()
    assert.equal(await xena.field.inputValue(), 'a draft')
    await xena.context.close()
    front.stop()
  })

  for (const [what, file] of [['picker', /\/assets\/parts-.*\.js$/], ['data', /\/assets\/en-.*\.js$/]] as const) {
    test(`a server that has a newer page has no emoji ${what} for the old one: the page says so and goes on`, async () => {
      const [user = ''] = await shared.users('yuri')
      const context = await profile(shared.browser, { serviceWorkers: 'block' })
      await context.route(file, (route) => route.fulfill({ status: 404, body: 'there is no such file' }))
      const yuri = await shared.open(user, { route: `u/${user}`, context })
      const thrown: string[] = []
      yuri.page.on('pageerror', (e) => thrown.push(e.message))
      await yuri.field.fill('half a word :smile')
      await yuri.field.press('Backspace') // asks for the emojis with such a name
      await yuri.press('Emoji')
      await yuri.page.getByText('A newer version is here.').waitFor()
      await yuri.page.getByRole('dialog', { name: 'Emoji' }).waitFor({ state: 'detached' })
      assert.equal(await yuri.field.inputValue(), 'half a word :smil')
      assert.equal(await yuri.page.getByRole('button', { name: 'Emoji' }).getAttribute('aria-expanded'), 'false')
      assert.deepEqual(thrown, [])
      await context.close()
    })
  }
})
