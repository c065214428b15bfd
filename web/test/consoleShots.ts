// Makes pictures of all pages of the console: light and dark, English and Chinese, phone, tablet and desktop, on a phone with the navigation as well; and a sheet of each page.
// `node scripts/run.mjs test/consoleShots.ts FOLDER [parts of names …]`
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { launch } from './browser.js'
import { makeConsoleWorld } from './consoleWorld.js'
import { openConsole } from './operator.js'
import { locales, makeSheets, nameOf, sizes, themes, useFonts } from './pictures.js'

const [folder = 'shots', ...only] = process.argv.slice(2)
const tallestPx = 2400 // a picture; lists go on like this
mkdirSync(folder, { recursive: true })
useFonts()
const browser = await launch()
const world = await makeConsoleWorld(browser)
await world.server.admin('AdminService/SetContacts', { pairs: [{ user: 'bob', other: 'alice' }] })
await world.server.admin('AdminService/SetProfiles', { profiles: [{ user: 'bob', displayName: 'Bob Bergen', about: 'Watches birds, mends nets, and answers the phone of the harbour office until six', handle: 'bob.b', fields: { badge: '4711', title: 'Harbour master' }, visibility: { about: 'VISIBILITY_NOBODY' } }] })
for (const request of [{ user: 'bob', reason: 'REPORT_REASON_SPAM', text: 'Sends the same advertisement each day, although I have asked him to stop' }, { conv: world.conv, seq: world.seq, reason: 'REPORT_REASON_HARASSMENT' }]) await fetch(`${world.server.url}/petrel.v1.AccountService/Report`, { method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${world.server.tokens['alice'] ?? ''}` }, body: JSON.stringify(request) })
await world.server.admin('AdminService/ResolveReport', { report: 1, action: 'REPORT_ACTION_NOTE', note: 'The third one this week: if he goes on, he is muted.' })
const pages = { reports: 'reports?state=all', report: 'reports/1', overview: '', overviewNode: '?node=' + world.node, users: 'users', user: 'users/bob', userAway: 'users/dave', conversations: 'conversations', conversationsOf: 'conversations?user=alice', conversation: `conversations/${world.conv}`, trace: `trace?conv=${world.conv}&seq=${world.seq}`, traceRefused: `trace?user=alice&clientMsgId=${world.refused}`, traceUser: 'trace?of=user&user=dave', refusals: 'refusals', refusalsEach: 'refusals?each=1', log: 'log', audit: 'audit', limits: 'limits', tenants: 'tenants', operators: 'operators', keys: 'keys', cluster: 'cluster', backups: 'backups' } as const
for (const [size, viewport] of Object.entries(sizes)) {
  for (const colorScheme of themes) {
    for (const locale of locales) {
      const names = Object.entries(pages).map(([name, page]) => ({ page, file: nameOf(name, size, colorScheme, locale) })).filter(({ file }) => only.length === 0 || only.some((part) => file.includes(part)))
      if (names.length === 0) continue
      const person = await openConsole(browser, world.server, world.session, '', { viewport, colorScheme, locale })
      for (const { page, file } of names) {
        await person.page.goto(`${world.server.operators}/admin/${page}`)
        await person.page.locator('main h1').waitFor()
        await person.page.waitForTimeout(900) // the calls of the page have been answered
        const height = await person.page.locator('main').evaluate((m) => innerHeight - m.clientHeight + m.scrollHeight)
        await person.page.setViewportSize({ width: viewport.width, height: Math.min(height, tallestPx) }) // the page scrolls in main
        await person.page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)) })) // charts are drawn that came into view
        await person.page.screenshot({ path: path.join(folder, `${file}.png`) })
        await person.page.setViewportSize(viewport)
        if (size !== 'phone' || page !== '') continue
        await person.page.locator('.top button').click()
        await person.page.screenshot({ path: path.join(folder, `navigation-${file}.png`) })
        await person.page.keyboard.press('Escape')
      }
      for (const trouble of person.trouble) console.error(`${size} ${colorScheme} ${locale}: ${trouble}`)
      await person.context.close()
    }
  }
}
const made = await makeSheets(browser, folder, [...Object.keys(pages), 'navigation-overview'])
console.log(`${made.pictures} pictures of ${made.sheets} pages in ${folder}`)
await browser.close()
await world.server.stop()
