// All views of the web chat, for whoever looks at each of them: pictures, and axe.
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { en } from '../src/i18n/en.js'
import { laterEn, laterZh } from '../src/i18n/laterTexts.js'
import { zh } from '../src/i18n/zh.js'
import { limitMs, Person } from './browser.js'
import { Server } from './server.js'
import { Shop } from './shop.js'
import { insecureHost, load, registerOlga, settleMs, type Shown, type View, viewsOf } from './views.js'
import { makeWorld, type World } from './world.js'

/** A server with people who have talked, and the views of it. */
export class Stage {
  readonly views: Readonly<Record<string, View>>
  readonly #server: Server
  readonly #world: World
  readonly #shop: Shop

  private constructor(server: Server, world: World, shop: Shop, bob: Person) {
    this.#server = server
    this.#world = world
    this.#shop = shop
    this.views = viewsOf(server, world, bob, shop)
  }

  static async open(browser: Browser): Promise<Stage> {
    const shop = await Shop.open()
    const server = await Server.start({ PETREL_LISTEN__HOSTS: insecureHost, PETREL_LISTEN__ORIGINS: shop.origin, PETREL_ACCOUNTS__LOOK_UPS_PER_MIN: '-1' }) // all pages are of one user
    const world = await makeWorld(server)
    const bob = await (await Person.open(browser, world.link('bob'))).ready()
    await bob.page.goto(`${server.url}/#/bob/u/alice`)
    await bob.field.waitFor()
    return new Stage(server, world, shop, bob)
  }

  /**
   * Opens the page of alice in a context. `name` is of this context alone. `show` opens the address of a view:
   * `load`, or `drawAnew`, which costs half the CPU.
   */
  async enter(context: BrowserContext, name: string, language: 'en' | 'zh', show: (p: Page, address: string) => Promise<void> = load): Promise<Shown> {
    const { url } = this.#server
    const p = await context.newPage()
    p.setDefaultTimeout(limitMs)
    const wire = await this.#world.prepare(p)
    const olga = `olga-${name}`
    await registerOlga(url, olga)
    await p.goto(this.#world.link('alice'))
    await p.locator('.chat-row').nth(9).waitFor()
    return {
      p, url, wire, context, olga, t: (key) => String((language === 'zh' ? { ...zh, ...laterZh } : { ...en, ...laterEn })[key]),
      to: async (address) => {
        await show(p, `${url}/#/${address}`)
        await p.locator(':is(.message, .chat-row, .signin-card, .beginning, .settings, .info):visible').first().waitFor()
        await p.waitForTimeout(settleMs) // the timeline has found its place then
      },
    }
  }

  async close(): Promise<void> {
    await this.#server.stop()
    this.#shop.close()
  }
}
