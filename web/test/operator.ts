// Operators at the console, with the second factor that their phone would have.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { Person } from './browser.js'
import type { Server } from './server.js'

export const operatorPassword = 'a long one for the console'
const stepMs = 30_000

/** The six digits that an app shows at a time for a secret in base32 (RFC 6238). */
export function digitsOf(secret: string, at = Date.now()): string {
  const bits = [...secret.replace(/[\s=]/g, '')].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('')
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((b) => parseInt(b, 2)))
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(Math.floor(at / stepMs)))
  const mac = createHmac('sha1', key).update(counter).digest()
  const from = (mac.at(-1) ?? 0) & 15
  return String((mac.readUInt32BE(from) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}

interface Session { readonly token: string; readonly name: string }

/** Makes an operator without a browser, and logs them in. Six digits work once, so each login has an operator of its own. */
export async function makeOperator(server: Server, name: string, scopes: readonly string[] = ['admin']): Promise<Session> {
  const { code } = await server.admin('AdminService/CreateOperator', { name, scopes }) as { code: string }
  const { secret } = await server.admin('OperatorService/BeginEnrollment', { code }) as { secret: string }
  const { session } = await server.admin('OperatorService/Enroll', { code, name, password: operatorPassword, secret, digits: digitsOf(secret) }) as { session: Session }
  return session
}

/** Opens a page of the console for an operator who is logged in. */
export async function openConsole(browser: Browser, server: Server, session: Session, page = '', options: BrowserContextOptions = {}, at = server.operators): Promise<Person> {
  const person = await Person.open(browser, `${at}/healthz`, { viewport: { width: 1280, height: 800 }, ...options })
  await person.page.evaluate((s) => sessionStorage.setItem('petrel-console:session', s), JSON.stringify(session))
  await person.page.goto(`${at}/admin/${page}`)
  await person.page.getByRole('navigation', { includeHidden: true }).waitFor({ state: 'attached' }) // on a phone it is hidden
  return person
}

/** Presses the button of a dialog that asks, having seen what it says of the change, and waits until it is done. */
export async function confirm(p: Person, button: string, from: string, to: string): Promise<void> {
  const changes = p.page.getByRole('dialog').locator('.changes')
  const cells = changes.locator('tbody tr').first().locator('td')
  assert.equal(await cells.nth(0).textContent(), from)
  assert.equal(await cells.nth(1).textContent(), to)
  await p.press(button, 'dialog')
  await changes.waitFor({ state: 'detached' })
}
