// The views of the web chat, and how a person gets to them.
import type { BrowserContext, Locator, Page } from 'playwright-core'
import type { AnyKey } from '../src/i18n/useLaterTranslation.js'
import type { Person } from './browser.js'
import type { Server } from './server.js'
import type { Shop } from './shop.js'
import { fateless, type Wire, type World } from './world.js'

/** A name of this host of which no browser knows that it is. */
export const insecureHost = 'insecure.test'

/** The time that a view needs after its last step, in ms. */
export const settleMs = 250

const olgaPassword = 'olga has a long one'

/** Where a view is shown. */
export interface Shown {
  readonly p: Page
  readonly url: string // of the server
  readonly wire: Wire
  readonly t: (key: AnyKey) => string // the text that the page shows
  readonly context: BrowserContext
  readonly to: (address: string) => Promise<void>
  readonly olga: string // a user who is in this context only
}

export type View = (s: Shown) => Promise<unknown>

/** Somebody new, who knows nobody and has logged in with a phone. */
export async function registerOlga(url: string, user: string): Promise<void> {
  const answer = await fetch(`${url}/petrel.v1.AuthService/Register`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ user, password: olgaPassword, displayName: 'Olga Petrova', device: { id: 'phone', kind: 'phone', name: 'Pixel 11, Android' } }),
  })
  if (!answer.ok) throw new Error(await answer.text())
}

/** Opens an address of the chat anew. A page of the same server is loaded again in its process, which costs less than another one. */
export async function load(p: Page, address: string): Promise<void> {
  if (new URL(p.url()).origin !== new URL(address).origin) return void await p.goto(address)
  await p.evaluate((to) => history.replaceState(null, '', to), address) // no change of the hash: the page that goes does nothing any more
  await p.reload()
}

const logInHash = '#/*'

/**
 * Opens an address of the chat without a load. The page goes to the log-in first, which takes down all that it draws
 * of the account, and forgets the drafts, as a load does (test/world.ts): nothing stays that an earlier view opened or
 * typed. The log-in itself and a page of another host are loaded.
 */
export async function drawAnew(p: Page, address: string): Promise<void> {
  const { origin, hash } = new URL(address)
  if (new URL(p.url()).origin !== origin || hash === logInHash) return load(p, address)
  const card = p.locator('.signin-card')
  await p.evaluate((to) => { location.hash = to }, logInHash)
  await card.waitFor()
  await p.evaluate((to) => {
    (globalThis as unknown as { keepGivenDrafts: () => void }).keepGivenDrafts()
    location.hash = to
  }, hash)
  await card.waitFor({ state: 'detached' })
}

const button = (p: Page, name: string): Locator => p.getByRole('button', { name, exact: true }).first()
const field = (p: Page): Locator => p.getByRole('textbox', { name: /^(Message|消息)$/ })
const bubble = (p: Page, text: string): Locator => p.locator('.message .bubble', { has: p.locator('.body', { hasText: text }) }).last()

async function messageMenu(p: Page, text: string, item?: string): Promise<void> {
  await bubble(p, text).click({ button: 'right', position: { x: 20, y: 10 } })
  if (item) await p.getByRole('menuitem', { name: item, exact: true }).click()
}

async function logIn(p: Page, t: Shown['t'], user: string): Promise<void> {
  await p.getByLabel(t('handle'), { exact: true }).fill(user)
  await p.getByLabel(t('password'), { exact: true }).fill(olgaPassword)
  await button(p, t('signIn')).click()
  await p.getByRole('navigation').waitFor({ state: 'attached' })
}

async function asOlga({ p, t, olga, url }: Shown, address: string): Promise<void> {
  await load(p, `${url}/#/${olga}`)
  await p.locator('.signin-card, .sidebar').first().waitFor({ state: 'attached' })
  if (await p.locator('.signin-card').count() > 0) await logIn(p, t, olga)
  await p.goto(`${url}/#/${olga}/${address}`)
}

/** All views, by name, in the order in which they can be shown one after another. Bob is at the direct conversation with alice. */
export function viewsOf(server: Server, world: World, bob: Person, shop: Shop): Readonly<Record<string, View>> {
  const mixed = `alice/c/${world.mixed}`
  const inShop = async ({ p, t }: Shown, what: string): Promise<void> => {
    await p.goto(shop.page(server.url, `user="alice" token="${world.link('alice').split('#t=')[1] ?? ''}" ${what}`, t('language') === 'Language' ? 'en' : 'zh'))
    await p.locator('petrel-chat').locator('.message, .chat-row').first().waitFor()
  }
  return {
    'signin': ({ to }) => to('*'),
    'signin-wrong': async ({ p, to, t }) => {
      await to('*')
      await p.getByLabel(t('handle'), { exact: true }).fill('alice')
      await p.getByLabel(t('password'), { exact: true }).fill('not the password')
      await button(p, t('signIn')).click()
      await p.getByRole('alert').waitFor()
    },
    'signup': async ({ p, to }) => {
      await to('*')
      await p.locator('.signin-card .button').last().click()
    },
    'signup-script': async ({ p, to, t }) => {
      await to('*')
      await p.locator('.signin-card .button').last().click()
      await p.getByLabel(t('handle'), { exact: true }).fill('安娜')
      await p.getByLabel(t('password'), { exact: true }).fill('guillemot ledge')
      await button(p, t('signUp')).click()
      await p.getByRole('alert').waitFor()
    },
    'list': ({ to }) => to('alice'),
    'list-bottom': async ({ p, to }) => {
      await to('alice')
      await p.locator('.chat-row').last().scrollIntoViewIfNeeded()
    },
    'list-menu': async ({ p, to }) => {
      await to('alice')
      await p.locator('.chat-row').nth(2).click({ button: 'right', position: { x: 160, y: 30 } })
    },
    'menu': async ({ p, to, t }) => {
      await to('alice')
      await button(p, t('menu')).click()
    },
    'search': async ({ p, to }) => {
      await to('alice')
      await p.getByRole('searchbox').fill('o')
      await p.locator('.chat-row').first().hover()
    },
    'search-person': async ({ p, to, olga }) => {
      await to('alice')
      await p.getByRole('searchbox').fill(`@${olga}`)
      await p.locator('.people-row').waitFor()
    },
    'search-nothing': async ({ p, to }) => {
      await to('alice')
      await p.getByRole('searchbox').fill('nobody-is-called-so')
      await p.waitForTimeout(600)
    },
    'archive': async ({ p, to }) => {
      await to('alice')
      await p.locator('.archive-row').click()
    },
    'keys': async ({ p, to }) => {
      await to('alice')
      await p.locator('.chat-row').first().waitFor()
      await p.keyboard.press('?')
    },
    'new-chat': async ({ p, to, t }) => {
      await to('alice')
      await button(p, t('newChat')).click()
      await p.getByRole('dialog').locator('.people-row').first().waitFor()
    },
    'new-chat-found': async ({ p, to, t, olga }) => {
      await to('alice')
      await button(p, t('newChat')).click()
      await p.getByRole('dialog').getByRole('searchbox').fill(olga)
      await p.getByRole('dialog').locator('.people-row').waitFor()
    },
    'contacts': async ({ p, to, t }) => {
      await to('alice')
      await button(p, t('menu')).click()
      await p.getByRole('menuitem', { name: t('contacts') }).click()
      await p.getByRole('dialog').locator('.people-row').nth(3).waitFor()
    },
    'contacts-bottom': async ({ p, to, t }) => {
      await to('alice')
      await button(p, t('menu')).click()
      await p.getByRole('menuitem', { name: t('contacts') }).click()
      await p.getByRole('dialog').locator('.people-row').last().scrollIntoViewIfNeeded()
    },
    'contacts-empty': async (s) => {
      await asOlga(s, '')
      await button(s.p, s.t('menu')).click()
      await s.p.getByRole('menuitem', { name: s.t('contacts') }).click()
      await s.p.getByRole('dialog').waitFor()
    },
    'report': async ({ p, to, t }) => {
      await to('alice/u/bob/info')
      await p.locator('.info .row', { hasText: t('report') }).click()
      await p.getByRole('dialog').getByRole('radio').first().check()
    },
    'delete-account': async ({ p, to, t }) => {
      await to('alice/settings')
      await button(p, t('deleteAccount')).click()
    },
    'contact': ({ to }) => to('alice/u/dave/info'),
    'contact-remark': async ({ p, to, t }) => {
      await to('alice/u/dave/info')
      await p.locator('.info .row', { hasText: t('remark') }).first().click()
    },
    'contact-remove': async ({ p, to, t }) => {
      await to('alice/u/dave/info')
      await button(p, t('removeContact')).click()
    },
    'contact-request': ({ to }) => to(`alice/u/${world.stranger}/info`),
    'contact-sent': ({ to }) => to(`alice/u/${world.asked}/info`),
    'contact-ask': async ({ p, to, t, olga }) => {
      await to(`alice/u/${olga}/info`)
      await button(p, t('addContact')).click()
      await p.getByRole('dialog').getByRole('textbox').fill('x'.repeat(201))
    },
    'new-group': async ({ p, to, t }) => {
      await to('alice')
      await button(p, t('menu')).click()
      await p.getByRole('menuitem', { name: t('newGroup'), exact: true }).click()
      const fields = p.getByRole('dialog').getByRole('textbox')
      await fields.first().fill('Sailing 帆船')
      for (const name of ['Bob', 'Erin']) await p.locator('dialog .row', { hasText: name }).click()
    },
    'direct': ({ to }) => to('alice/u/bob'),
    'direct-chinese': ({ to }) => to('alice/u/carol'),
    'direct-arabic': ({ to }) => to('alice/u/farid'),
    'direct-long-name': ({ to }) => to('alice/u/erin'),
    'direct-long-word': ({ to }) => to('alice/u/a.user.name.that.is.as.long.as.one.may.be-0123456789-01234567890'),
    'direct-draft': ({ to }) => to('alice/u/noa'),
    'direct-first': ({ to }) => to('alice/u/wang'),
    'notes': ({ to }) => to('alice/u/alice'),
    'group': ({ to }) => to(`alice/c/${world.boat}`),
    'mixed': ({ to }) => to(mixed),
    'mixed-unread': async ({ p, to }) => {
      await to(mixed)
      await p.locator('.unread-line').waitFor()
      await p.locator('.timeline-view').evaluate((v) => v.scrollTo(0, v.scrollHeight))
    },
    'mixed-middle': async ({ p, to }) => {
      await to(mixed)
      await bubble(p, 'A_word_that').evaluate((b) => b.scrollIntoView({ block: 'end' }))
    },
    'mixed-top': async ({ p, to }) => {
      await to(mixed)
      await p.locator('.timeline-view').evaluate((v) => v.scrollTo(0, 0))
    },
    'unread': ({ to }) => to(`alice/c/${world.crowd}`),
    'former': ({ to }) => to(`alice/c/${world.former}`),
    'typing': async ({ p, to }) => {
      await to('alice/u/bob')
      const typing = p.locator('.chat-header .typing')
      for (let i = 0; i < 8 && await typing.count() === 0; i++) {
        await bob.field.pressSequentially('Well ')
        await p.waitForTimeout(500)
      }
      await typing.waitFor()
    },
    'message-menu': async ({ p, to }) => {
      await to(mixed)
      await messageMenu(p, '收到，明天见')
    },
    'message-menu-own': async ({ p, to }) => {
      await to(mixed)
      await messageMenu(p, 'The last thing')
    },
    'message-hover': async ({ p, to }) => {
      await to(mixed)
      await bubble(p, '收到，明天见').hover()
    },
    'reply': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, '收到，明天见', t('reply'))
    },
    'edit': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, 'The last thing', t('edit'))
    },
    'composer-long': async ({ p, to }) => {
      await to('alice/u/bob')
      await field(p).fill(Array.from({ length: 30 }, (_, i) => `Line ${i + 1} of a text that somebody has pasted`).join('\n'))
    },
    'mention': async ({ p, to }) => {
      await to(mixed)
      await field(p).pressSequentially('@')
      await p.locator('.completion').waitFor()
    },
    'emoji-completion': async ({ p, to }) => {
      await to('alice/u/carol')
      await field(p).pressSequentially(':he')
      await p.locator('.completion').waitFor()
    },
    'emoji': async ({ p, to, t }) => {
      await to('alice/u/carol')
      await button(p, t('emoji')).click()
      await p.locator('.emoji').first().waitFor()
    },
    'emoji-tones': async ({ p, to, t }) => {
      await to('alice/u/carol')
      await button(p, t('emoji')).click()
      for (const at of [40, 3]) await p.locator('.emoji').nth(at).click()
      await button(p, t('emoji')).click()
      await button(p, t('emoji')).click()
      await p.locator(`section[aria-label="${t('emojiRecent')}"]`).waitFor()
      await button(p, t('skinTone')).click()
      await p.locator('.tones').waitFor()
    },
    'react': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, '收到，明天见', t('reactOther'))
      await p.locator('.emoji').first().waitFor()
    },
    'forward': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, '收到，明天见', t('forward'))
    },
    'who-read': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, 'The last thing', t('whoRead'))
      await p.locator('dialog .row').first().waitFor()
    },
    'who-reacted': async ({ p, to, t }) => {
      await to(mixed)
      await bubble(p, 'Decision: we ship').evaluate((b) => b.scrollIntoView({ block: 'center' }))
      await p.waitForTimeout(settleMs)
      await messageMenu(p, 'Decision: we ship', t('whoReacted'))
      await p.locator('dialog .row').first().waitFor()
    },
    'select': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, '收到，明天见', t('select'))
      await p.locator('.message', { has: p.locator('.body', { hasText: 'The last thing' }) }).last().click()
    },
    'thread': async ({ p, to }) => {
      await to(mixed)
      await p.locator('.bubble-replies').last().click()
      await p.locator('.thread .message').nth(2).waitFor()
    },
    'thread-root': async ({ p, to }) => {
      await to(mixed)
      await p.locator('.bubble-replies').last().scrollIntoViewIfNeeded()
    },
    'mute-menu': async ({ p, to, t }) => {
      await to(mixed)
      await p.locator('.chat-header .icon-button').last().click()
      await p.getByRole('menuitem', { name: t('mute'), exact: true }).click()
    },
    'pins': async ({ p, to, t }) => {
      await to(mixed)
      await p.locator('.chat-header .icon-button').last().click()
      await p.getByRole('menuitem', { name: t('pinnedMessages') }).click()
      await p.locator('dialog .row').first().waitFor()
    },
    'chat-menu': async ({ p, to }) => {
      await to(mixed)
      await p.locator('.chat-header .icon-button').last().click()
    },
    'date': async ({ p, to, t }) => {
      await to(mixed)
      await p.locator('.chat-header .icon-button').last().click()
      await p.getByRole('menuitem', { name: t('jumpToDate') }).click()
      await p.getByRole('grid').waitFor()
    },
    'recall': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, 'The last thing', t('recall'))
    },
    'element': (s) => inShop(s, 'peer="bob"'),
    'element-list': (s) => inShop(s, ''),
    'info-user': ({ to }) => to('alice/u/bob/info'),
    'info-group': ({ to }) => to(`${mixed}/info`),
    'profile': ({ to }) => to(`${mixed}/p/bob`),
    'info-crowd': ({ to }) => to(`alice/c/${world.crowd}/info`),
    'member-menu': async ({ p, to }) => {
      await to(`${mixed}/info`)
      await p.locator('.info .row', { hasText: 'Bob' }).click()
    },
    'add-members': async ({ p, to, t }) => {
      await to(`${mixed}/info`)
      await button(p, t('addMembers')).click()
    },
    'rename': async ({ p, to }) => {
      await to(`${mixed}/info`)
      await p.locator('.info-header .icon-button').last().click()
    },
    'question': async ({ p, to }) => {
      await to(`${mixed}/info`)
      await p.locator('.info .row-danger').last().click()
    },
    'settings': ({ to }) => to('alice/settings'),
    'settings-bottom': async ({ p, to }) => {
      await to('alice/settings')
      await p.locator('.settings-version').scrollIntoViewIfNeeded()
    },
    'name': async ({ p, to, t }) => {
      await to('alice/settings')
      await p.locator('.settings .row', { hasText: t('editProfile') }).click()
    },
    'password': async ({ p, to, t }) => {
      await to('alice/settings')
      await p.locator('.settings .row', { hasText: t('changePassword') }).click()
    },
    'logout': async ({ p, to }) => {
      await to('alice/settings')
      await p.locator('.settings .row-danger').first().click()
    },
    'loading': async (s) => { // the first time, when nothing has come from the server yet
      s.wire.cut()
      await asOlga(s, 'u/wang')
      s.wire.mend()
    },
    'empty': (s) => asOlga(s, ''),
    'accounts': async (s) => {
      await asOlga(s, '')
      await button(s.p, s.t('menu')).click()
    },
    'devices': async (s) => {
      await asOlga(s, 'devices')
      await s.p.locator('.settings .row').nth(1).waitFor()
    },
    'reconnecting': async (s) => {
      s.wire.cut()
      await asOlga(s, 'u/wang')
      await s.p.locator('.connection:visible, .chat-subtitle[role="status"]:visible').waitFor()
      await field(s.p).fill('Written while there is no connection')
      await button(s.p, s.t('send')).click()
      await bubble(s.p, 'Written while').waitFor()
    },
    'offline': async ({ p, to, wire, context }) => {
      wire.cut()
      await to('alice/u/carol')
      await context.setOffline(true)
      await p.locator('.connection:visible, .chat-subtitle[role="status"]:visible').waitFor()
    },
    'online-again': async (s) => {
      await s.context.setOffline(false)
      s.wire.mend()
      await asOlga(s, 'u/wang')
      await bubble(s.p, 'Written while').getByRole('img', { name: s.t('fateStored') }).waitFor()
    },
    'blocked': async (s) => {
      await asOlga(s, 'u/wang/info')
      await button(s.p, s.t('block')).click()
      await asOlga(s, 'u/wang')
      await s.p.locator('.blocked-line').waitFor()
    },
    'blocked-settings': async (s) => {
      await asOlga(s, 'settings')
      await s.p.locator('.blocked').scrollIntoViewIfNeeded()
    },
    'failed': async ({ p, to, t }) => {
      await to('alice/u/nobody')
      await field(p).fill('Is anybody there? I am looking for the owner of the blue boat at gate B.')
      await button(p, t('send')).click()
      await p.locator('.failure').waitFor()
    },
    'failed-list': async ({ p, to }) => {
      await to('alice/u/nobody')
      await p.locator('.failure').waitFor()
      await p.locator('.failure-tools .button').first().hover()
    },
    'unknown': async ({ p, to, olga, t }) => {
      await to(`alice/u/${olga}`) // nobody has written there
      await field(p).fill(fateless)
      await button(p, t('send')).click()
      await p.getByText(t('unknowableAgain')).waitFor()
    },
    'toast': async ({ p, to, t }) => {
      await to(mixed)
      await messageMenu(p, '收到，明天见', t('copy'))
      await p.locator('.toast').waitFor()
    },
    'update': async ({ p, to }) => {
      await to('alice/u/bob')
      await p.waitForFunction(() => navigator.serviceWorker.controller !== null)
      await p.reload()
      await p.locator('.message').first().waitFor()
      await p.evaluate(() => navigator.serviceWorker.dispatchEvent(new Event('controllerchange')))
    },
    'insecure': async ({ p, t, olga }) => {
      await p.goto(`${server.url.replace('127.0.0.1', insecureHost)}/#/*`)
      await logIn(p, t, olga)
      await p.locator('.connection').waitFor()
    },
    'ended': async (s) => {
      await asOlga(s, '')
      await server.admin('AdminService/SetPassword', { user: s.olga, password: olgaPassword })
      await s.p.locator('.signin-card').waitFor()
    },
    'storage': async ({ p }) => { // last: the page stays without a store
      await p.addInitScript(() => {
        IDBFactory.prototype.open = () => {
          throw new DOMException('The user denied permission to access the database.', 'SecurityError')
        }
      })
      await p.goto('about:blank')
      await p.goto(`${server.url}/#/alice/u/bob`)
      await p.waitForTimeout(1000)
    },
  }
}
