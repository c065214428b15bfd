// The first page of the console while something is wrong, and on a phone.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Person, suiteMs } from './browser.js'
import { type ConsoleWorld, makeConsoleWorld } from './consoleWorld.js'
import { makeOperator, openConsole } from './operator.js'
import { Server } from './server.js'
import { Shared } from './shared.js'

const dayMs = 86_400_000

describe('the console while something is wrong', { timeout: suiteMs }, () => {
  const shared = Shared.use()
  let server: Server
  let session: Awaited<ReturnType<typeof makeOperator>>
  before(async () => {
    server = await Server.start()
    session = await makeOperator(server, 'carol')
  })
  after(() => server.stop())

  const incident = (p: Person, text: string | RegExp): Promise<void> => p.page.locator('.incidents li').filter({ hasText: text }).waitFor()

  test('passwords are guessed: the first page says so, and the refusals say from where', async () => {
    const p = await openConsole(shared.browser, server, session)
    await p.page.getByText('Nothing needs your attention.').waitFor()
    const logIn = (i: number): Promise<Response> => fetch(`${server.url}/petrel.v1.AuthService/Login`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ user: `user${i}`, password: 'not this one', device: { id: 'd1', kind: 'web' } }) })
    const codes = await Promise.all(Array.from({ length: 70 }, (_, i) => logIn(i)))
    assert.ok(codes.every((r) => !r.ok))
    await incident(p, /guessing passwords: \d+ of \d+ logins/)
    assert.match(await p.page.title(), /^🟡/)
    await p.page.getByText('Block the address in front of the server').waitFor()
    await p.page.locator('.chart').filter({ hasText: 'Wrong logins' }).waitFor()
    await p.page.locator('.incidents').getByRole('link', { name: 'Refusals' }).click()
    const row = p.page.getByRole('row').filter({ hasText: 'bad_credentials' })
    await row.filter({ hasText: '127.0.0.1' }).waitFor()
    assert.equal(await row.count(), 1, 'one row, not one for each refusal')
    await p.page.getByRole('combobox', { name: 'Shown' }).selectOption('One by one')
    await p.page.waitForFunction(() => document.querySelectorAll('tbody tr').length > 10)
    await p.context.close()
  })

  test('the newest backup is old', async () => {
    await server.admin('AdminService/NoteBackup', { backup: { name: 'nightly', folder: '/backups', madeMs: String(Date.now() - 9 * dayMs), commit: '1', commitMs: '1', bytes: '1' } })
    const p = await openConsole(shared.browser, server, session)
    await incident(p, 'The newest backup is of')
    await p.context.close()
  })

  test('incidents that are over stay listed', async () => {
    const p = await openConsole(shared.browser, server, session)
    await incident(p, 'The newest backup is of')
    await server.admin('AdminService/NoteBackup', { backup: { name: 'today', folder: '/backups', madeMs: String(Date.now()), commit: '2', commitMs: '2', bytes: '1' } })
    await p.page.locator('.past summary').click()
    await p.page.getByRole('region', { name: 'Incidents that are over' }).getByText('The newest backup is of').waitFor()
    await p.page.reload()
    await p.page.locator('.past summary').waitFor()
    await p.context.close()
  })

  test('the disk is full: an operator logs in and is told what to do', async () => {
    const { bavail, bsize } = statfsSync(tmpdir())
    const free = bavail * bsize
    const full = await Server.start({ PETREL_STORE__MIN_FREE: `${Math.floor(0.8 * free / 2 ** 20)}MiB` })
    try {
      const who = await makeOperator(full, 'carol') // a full disk takes no enrolment
      execFileSync('fallocate', ['-l', String(Math.floor(0.4 * free)), path.join(full.folder, 'taken')])
      const p = await openConsole(shared.browser, full, who)
      await incident(p, /free on the disk, less than store.min_free: sends are refused/)
      await p.page.getByText('Free space on the disk of the store, or make it larger').waitFor()
      assert.match(await p.page.title(), /^🔴/)
      await p.context.close()
    } finally {
      await full.stop()
    }
  })

  for (const [code, details, english] of [
    ['certificate_ends', [new Date(Date.now() + 5 * dayMs).toISOString().slice(0, 10)], 'The certificate of tls.cert_file ends on'],
    ['inboxes_late', ['14'], 'The lists of conversations are 14 s behind'],
  ] as const) {
    test(`${code} is on the first page, with what to do`, async () => {
      const p = await openConsole(shared.browser, server, session, 'log')
      await p.page.addInitScript((incident) => { // the server tells of one more
        const real = fetch
        globalThis.fetch = async (to, options) => {
          const answer = await real(to, options)
          if (!String(to).endsWith('/GetOverview') || !answer.body) return answer
          const lines = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(new TransformStream<string, string>({
            transform: (part, out) => out.enqueue(part.replace(/"verdict":\s*"\w+",(\s*"incidents":\s*\[)?/g, (_, begun) => `"verdict":"VERDICT_DEGRADED","incidents":[${incident}${begun ? ',' : '],'}`)),
          }))
          return new Response(lines.pipeThrough(new TextEncoderStream()), answer)
        }
      }, JSON.stringify({ severity: 'VERDICT_DEGRADED', code, sinceMs: String(Date.now() - 60_000), node: 'n1', text: code, details }))
      await p.page.goto(`${server.operators}/admin/`)
      await incident(p, english)
      const item = p.page.locator('.incidents li').filter({ hasText: english })
      const link = item.getByRole('link', { name: 'The guide' })
      assert.match(await link.getAttribute('href') ?? '', new RegExp(`console.md#${code}$`))
      await p.context.close()
    })
  }
})

describe('the console on a phone', { timeout: suiteMs }, () => {
  const shared = Shared.use()
  let w: ConsoleWorld
  before(async () => {
    w = await makeConsoleWorld(shared.browser)
  })
  after(() => w.server.stop())

  const pages = ['', '?node=', 'users', 'users/bob', 'users/dave', 'conversations', 'conversations?user=alice', 'conversations/', 'trace', 'trace/', 'refusals', 'refusals?each=1', 'log', 'audit', 'limits', 'tenants', 'operators', 'keys', 'cluster', 'backups']

  for (const locale of ['en-US', 'zh-CN']) {
    test(`every page fits 360 px, nothing but the page scrolls, and what is pressed is 44 px high: ${locale}`, async () => {
      const p = await openPhone(locale)
      const found: string[] = []
      for (const page of pages) {
        const to = page === '?node=' ? `?node=${w.node}` : page === 'conversations/' ? `conversations/${w.conv}` : page === 'trace/' ? `trace?conv=${w.conv}&seq=${w.seq}` : page
        await p.page.evaluate((path) => {
          history.pushState(null, '', path)
          dispatchEvent(new Event('petrel-moved'))
        }, `/admin/${to}`)
        await p.page.locator('main :is(td, dd, input)').first().waitFor()
        await p.page.waitForFunction(() => !/Loading…|加载中/.test(document.querySelector('main')?.textContent ?? ''))
        found.push(...(await p.page.evaluate(() => {
          const main = document.querySelector('main') as HTMLElement
          const wide = document.documentElement.scrollWidth > innerWidth || main.scrollWidth > main.clientWidth ? ['wider than the window'] : []
          const long = document.documentElement.scrollHeight > innerHeight ? ['longer than the window'] : []
          const low = [...document.querySelectorAll('.top button, main :is(a, button, select, summary)')].filter((e) => {
            const { width, height } = e.getBoundingClientRect()
            return width > 0 && height < 43.5
          }).map((e) => `low: ${e.outerHTML.slice(0, 100)}`)
          const cut = [...main.querySelectorAll('h1:not(.unseen), h2, td, dt, dd, button')].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !e.classList.contains('cut') && getComputedStyle(e).display !== 'inline').map((e) => `cut: ${e.outerHTML.slice(0, 100)}`)
          return [...wide, ...long, ...low, ...cut]
        })).map((what) => `${to}: ${what}`))
      }
      assert.deepEqual(found, [])
      await p.context.close()
    })
  }

  const openPhone = (locale = 'en-US'): Promise<Person> => openConsole(shared.browser, w.server, w.session, '', { viewport: { width: 360, height: 740 }, locale, hasTouch: true }, w.server.operators)

  test('the navigation lies over the page when it is asked for, by keyboard as well', async () => {
    const p = await openPhone()
    const side = p.page.getByRole('navigation')
    const opener = p.page.getByRole('button', { name: 'Pages' })
    await opener.waitFor()
    assert.equal(await side.isVisible(), false)
    await opener.focus()
    await p.page.keyboard.press('Enter')
    await side.waitFor()
    await p.page.waitForFunction(() => document.activeElement?.getAttribute('aria-current') === 'page')
    await p.page.keyboard.press('Escape')
    await side.waitFor({ state: 'hidden' })
    assert.equal(await opener.evaluate((e) => e === document.activeElement), true)
    await opener.click()
    await side.getByRole('link', { name: 'Users' }).click()
    await p.page.getByRole('heading', { name: 'Users' }).waitFor()
    await side.waitFor({ state: 'hidden' })
    await p.context.close()
  })
})
