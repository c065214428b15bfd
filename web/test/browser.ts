// Pages of the chat in Debian's Chromium, driven by Playwright.
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core'

/** How long a test waits, in ms, before it calls a condition unmet. Only a fault meets it. */
export const limitMs = 60_000

/** The same for all tests of a file, in ms. */
export const suiteMs = 900_000

/** Whether tests judge what is promised of time: in `make long`. */
export const areTimesJudged = 'PETREL_TIMES' in process.env

/** Waits until a condition holds. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = performance.now() + limitMs; !await holds(); await pause(20)) assert.ok(performance.now() < end, `not within ${limitMs} ms: ${what}`)
}

/** Waits until a page has run what is due, and has drawn it. Consequences without a timer have come then. */
export const drawn = (page: Page): Promise<void> => page.evaluate(() => new Promise<void>((resolve) => {
  let frames = 0
  const next = (): void => {
    if (frames++ === 3) resolve()
    else requestAnimationFrame(() => setTimeout(next))
  }
  next()
}))

const start = (program: string, more: readonly string[]): Promise<Browser> => chromium.launch({ executablePath: process.env['PETREL_CHROMIUM'] ?? program, args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP *.test 127.0.0.1', ...more] })

/** `more` are arguments of Chromium. Its headless shell has the same engine and nothing around it, so that a new profile takes a third of the CPU. */
export const launch = (...more: readonly string[]): Promise<Browser> => start('/usr/bin/chromium-headless-shell', more)

/** The whole browser: the shell shows no notifications. */
export const launchWhole = (): Promise<Browser> => start('/usr/bin/chromium', [])

const broken = process.env['PETREL_BROKEN_PAGE'] // the script of a page that breaks a rule, in the place of its own

const all: Person[] = []

/** A new browser profile. */
export async function profile(browser: Browser, options: BrowserContextOptions = {}): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: { width: 1000, height: 700 }, locale: 'en-US', reducedMotion: 'reduce', ...options })
  if (broken) await context.route(/\/assets\/index-[\w-]+\.js$/, (route) => route.fulfill({ path: broken, contentType: 'text/javascript' }))
  return context
}

/** Somebody at a browser of their own, or at another tab of it. */
export class Person {
  readonly page: Page
  readonly context: BrowserContext
  user = '' // who is logged in, once the list has come
  readonly trouble: string[] = [] // errors of the page

  private constructor(page: Page, context: BrowserContext) {
    this.page = page
    this.context = context
    page.on('pageerror', (e) => this.trouble.push(e.message))
    page.on('console', (m) => {
      if (broken && m.text().includes('virtual:')) return // the emojis are no part of some pages that break a rule
      if (/Content Security Policy|Refused to|Warning:|unique "key"/.test(m.text())) this.trouble.push(m.text())
    })
    all.push(this)
  }

  /** Opens an address in a new browser profile, or in a new tab of one. */
  static async open(at: Browser | BrowserContext, address: string, options: BrowserContextOptions = {}): Promise<Person> {
    const context = 'newContext' in at ? await profile(at, options) : at
    const page = await context.newPage()
    page.setDefaultTimeout(limitMs)
    const person = new Person(page, context)
    await page.goto(address)
    return person
  }

  get field(): Locator {
    return this.page.getByRole('textbox', { name: /^(Message|消息)$/ })
  }

  /** Waits until the list has come. */
  async ready(): Promise<this> {
    await this.page.getByRole('navigation').waitFor()
    this.user = decodeURIComponent(new URL(this.page.url()).hash.split('/')[1] ?? '')
    return this
  }

  /** Goes to a part of the account, such as 'u/bob', 'c/CONV' or 'settings'. */
  async go(route: string): Promise<void> {
    await this.page.evaluate((hash) => new Promise<void>((resolve) => {
      if (location.hash === hash) return resolve()
      addEventListener('hashchange', () => setTimeout(resolve), { once: true })
      location.hash = hash
    }), `#/${this.user}/${route}`)
    await this.page.locator('.composer-place, .composer-none, .settings').first().waitFor({ state: 'attached' })
  }

  /** Presses a button of the dialog that is open, or another one. */
  async press(name: string | RegExp, inside: 'dialog' | 'page' = 'page'): Promise<void> {
    const within = inside === 'dialog' ? this.page.getByRole('dialog') : this.page
    await within.getByRole('button', typeof name === 'string' ? { name, exact: true } : { name }).click()
  }

  /** Waits until the field has a text that the page has put there. */
  async has(text: string): Promise<void> {
    await until(`the field has ${text}`, async () => await this.field.inputValue() === text)
  }

  /** Waits until a message is on the server. */
  async stored(text: string): Promise<void> {
    await this.message(text).getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
  }

  async say(text: string): Promise<void> {
    await this.field.fill(text)
    await this.field.press('Enter')
  }

  /** The message with a text. */
  message(text: string): Locator {
    return this.page.locator('.message', { has: this.page.locator('.body', { hasText: new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`) }) })
  }

  /** The texts of the timeline, in their order. */
  texts(): Promise<string[]> {
    return this.page.locator('.message .body').allTextContents()
  }

  /** The row of a conversation in the list. */
  row(name: string): Locator {
    return this.page.locator('.chat-row', { hasText: name })
  }

  /** Chooses something from the menu of a message. */
  async choose(text: string, item: string | RegExp): Promise<void> {
    await this.message(text).locator('.bubble').click({ button: 'right' })
    await this.page.getByRole('menuitem', { name: item }).click()
  }

  /** Deletes a message for everyone. */
  async recall(text: string): Promise<void> {
    await this.choose(text, 'Delete for everyone')
    await this.press('Delete for everyone', 'dialog')
  }
}

/** The texts of all open pages, for the report of a failed test. */
export async function showing(): Promise<string[]> {
  const open = all.filter((p) => !p.page.isClosed())
  return Promise.all(open.map(async (p) => {
    const text = await p.page.locator('body').innerText({ timeout: 2_000 }).catch((e: unknown) => `no text: ${String(e)}`)
    const typed = await p.page.evaluate(() => [...document.querySelectorAll('textarea')].map((f) => f.value).join(' | ')).catch(() => '')
    return `${p.user} at ${p.page.url()} sees: ${text.replace(/\s*\n\s*/g, ' | ')}${typed && `, and has typed: ${typed}`}`
  }))
}

/** The errors in the pages of all people so far. */
export function troubles(): string[] {
  return all.flatMap((p) => p.trouble)
}
