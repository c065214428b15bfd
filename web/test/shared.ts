// One server and one browser for all tests of a run. Each test has users of its own.
import assert from 'node:assert/strict'
import { after, afterEach, before, type TestContext } from 'node:test'
import type { Browser, BrowserContext, BrowserContextOptions } from 'playwright-core'
import { launch, Person, showing, troubles } from './browser.js'
import { Server } from './server.js'

let begun: Promise<[Server, Browser]> | undefined
let suites = 0 // that are not over
let made = 0 // users, and what else needs a name of its own

/** The server and browser that a suite has in common with the others. */
export class Shared {
  server!: Server
  browser!: Browser
  readonly #links = new Map<string, string>()

  /** To be called by a suite, before its tests: the last one that ends stops the server. */
  static use(): Shared {
    const shared = new Shared()
    suites++
    before(async () => {
      [shared.server, shared.browser] = await (begun ??= Promise.all([Server.start({ PETREL_LISTEN__HOSTS: 'chat.test' }), launch()]))
    })
    afterEach(async (t) => {
      const test = t as TestContext & { readonly passed?: boolean } // Node has had it longer than its types
      if (test.passed === false) for (const line of await showing()) test.diagnostic(line)
    })
    after(async () => {
      if (--suites > 0) return
      await shared.browser.close()
      await shared.server.stop()
      assert.deepEqual(troubles(), []) // no page has broken its policy or thrown an error
    })
    return shared
  }

  /** A name that nobody has. */
  name(name: string): string {
    return `${name}${++made}`
  }

  /** New users, whose names begin as asked for. */
  async users(...names: readonly string[]): Promise<readonly string[]> {
    const users = names.map((name) => this.name(name))
    for (const [user, link] of Object.entries(await this.server.users(...users))) this.#links.set(user, link)
    return users
  }

  /** Opens the page of a user, who logs in by a link. */
  async open(user: string, at: { readonly route?: string; readonly context?: BrowserContext; readonly options?: BrowserContextOptions; readonly address?: string } = {}): Promise<Person> {
    const { route, context = this.browser, options, address = this.server.url } = at
    const person = await (await Person.open(context, (this.#links.get(user) ?? '').replace(this.server.url, address), options)).ready()
    if (route !== undefined) await person.go(route)
    return person
  }

  /** Two new users, each with the direct conversation with the other open. */
  async pair(a: string, b: string): Promise<readonly [Person, Person]> {
    const [one = '', two = ''] = await this.users(a, b)
    return Promise.all([this.open(one, { route: `u/${two}` }), this.open(two, { route: `u/${one}` })])
  }

  /** A new group of new users, the first of whom owns it. */
  async group(title: string, ...names: readonly string[]): Promise<{ readonly conv: string; readonly users: readonly string[] }> {
    const users = await this.users(...names)
    const { conv } = await this.server.admin('AdminService/CreateGroup', { title, members: users.map((user, i) => i === 0 ? { user, role: 'ROLE_OWNER' } : { user }) }) as { conv: string }
    return { conv, users }
  }
}
