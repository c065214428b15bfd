// Scores of Lighthouse for the chat and the console, on a desktop and on a phone, each the median of some runs. Lighthouse is not of this
// package: `npm i --prefix FOLDER lighthouse@12.8.2`, then `node scripts/run.mjs test/lighthouse.ts FOLDER [runs] [parts of names …]`.
// The reports are in FOLDER/reports. Load on the machine lowers the performance. The console asks not to be indexed, so that is not judged.
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { launch } from './browser.js'
import { makeConsoleWorld } from './consoleWorld.js'
import { Server } from './server.js'
import { quantile } from './walk.js'
import { makeWorld } from './world.js'

const [folder = '', runs = '3', ...only] = process.argv.slice(2)

/** The used parts of puppeteer-core and lighthouse, whose types are not here. */
interface PuppetPage {
  goto(address: string): Promise<unknown>
  waitForSelector(selector: string): Promise<unknown>
  evaluate<A>(run: (argument: A) => unknown, argument: A): Promise<unknown>
}
interface Puppet {
  createBrowserContext(): Promise<{ newPage(): Promise<PuppetPage>; close(): Promise<void> }>
  close(): Promise<void>
}
interface Result {
  readonly report: string
  readonly lhr: {
    readonly categories: Readonly<Record<string, { readonly score: number | null; readonly auditRefs: readonly { readonly id: string; readonly weight: number }[] }>>
    readonly audits: Readonly<Record<string, { readonly score: number | null; readonly title: string; readonly displayValue?: string }>>
  }
}

const load = (file: string): Promise<unknown> => import(pathToFileURL(path.resolve(folder, 'node_modules', file)).href)
const { default: lighthouse, desktopConfig } = await load('lighthouse/core/index.js') as { default: (address: string, flags: object, config: object | undefined, page: PuppetPage) => Promise<Result>; desktopConfig: object }
const { default: puppeteer } = await load('puppeteer-core/lib/esm/puppeteer/puppeteer-core.js') as { default: { launch(options: object): Promise<Puppet> } }

const browser = await launch()
const [server, operated] = await Promise.all([Server.start(), makeConsoleWorld(browser)])
const world = await makeWorld(server)
const consoleAt = `${operated.server.operators}/admin/`

/** A page of these, and how somebody gets there who is not measured. */
const pages: Readonly<Record<string, { readonly address: string; readonly enter?: (page: PuppetPage) => Promise<unknown> }>> = {
  'chat': {
    address: `${server.url}/#/alice/c/${world.mixed}`,
    enter: async (page) => {
      await page.goto(world.link('alice'))
      await page.waitForSelector('.chat-row')
    },
  },
  'chat, login': { address: `${server.url}/` },
  'console': {
    address: consoleAt,
    enter: async (page) => {
      await page.goto(`${operated.server.operators}/healthz`)
      await page.evaluate((session) => sessionStorage.setItem('petrel-console:session', session), JSON.stringify(operated.session))
    },
  },
  'console, login': { address: consoleAt },
}
const kinds = { desktop: desktopConfig, mobile: undefined } as const

mkdirSync(path.join(folder, 'reports'), { recursive: true })
const puppet = await puppeteer.launch({ executablePath: process.env['PETREL_CHROMIUM'] ?? '/usr/bin/chromium-headless-shell', args: ['--no-sandbox', '--disable-gpu'] })
for (const [name, { address, enter }] of Object.entries(pages)) {
  for (const [kind, config] of Object.entries(kinds)) {
    if (only.length > 0 && !only.some((part) => `${name} ${kind}`.includes(part))) continue
    const results: Result[] = []
    for (let i = 0; i < Number(runs); i++) {
      const context = await puppet.createBrowserContext()
      const page = await context.newPage()
      await enter?.(page)
      results.push(await lighthouse(address, { output: 'html', disableStorageReset: true, logLevel: 'error', skipAudits: name.startsWith('console') ? ['is-crawlable'] : [] }, config, page))
      await context.close()
    }
    const scores = Object.keys(results[0]?.lhr.categories ?? {}).map((id) => `${id} ${quantile(results.map(({ lhr }) => Math.round((lhr.categories[id]?.score ?? 0) * 100)), 0.5)}`)
    console.log(`${name}, ${kind}: ${scores.join(', ')}`)
    const last = results.at(-1)
    if (!last) continue
    writeFileSync(path.join(folder, 'reports', `${name} ${kind}.html`.replaceAll(/,? /g, '-')), last.report)
    for (const [id, { auditRefs }] of Object.entries(last.lhr.categories)) {
      for (const { id: audit, weight } of auditRefs) {
        const { score, title, displayValue = '' } = last.lhr.audits[audit] ?? { score: 1, title: audit }
        if (weight > 0 && score !== null && score < 0.9) console.log(`  ${id}: ${title} ${displayValue}`)
      }
    }
  }
}
await Promise.all([puppet.close(), browser.close(), server.stop(), operated.server.stop()])
