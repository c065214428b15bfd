// The guide docs/guide/first-app.md and its files, against the real binary: each back end, and each page.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { launch, Person, suiteMs, troubles, until } from './browser.js'
import { freeAddress, Server } from './server.js'

const files = path.resolve('../examples/first-app')
const guide = readFileSync('../docs/guide/first-app.md', 'utf8')
const read = (file: string): string => readFileSync(path.join(files, file), 'utf8')

test('what the guide quotes stands in the files', () => {
  const blocks = [...guide.matchAll(/```(js|jsx|python|go|html)\n([^]*?)```/g)]
  assert.equal(blocks.length, 7)
  const all = ['server.mjs', 'server.py', 'server.go', 'client.js', 'plain.js', 'react.jsx', 'pages/index.html'].map(read)
  for (const [, , text = ''] of blocks) assert.ok(all.some((file) => file.includes(text)), `no file has:\n${text}`)
})

describe('the first application', { timeout: suiteMs, concurrency: 3 }, () => {
  const programs = { node: ['node', 'server.mjs'], python: ['python3', 'server.py'], go: ['./server'] } as const
  // Two applications outside of the checkout: one has installed the packed SDK, the other one has a link to its folder.
  const root = mkdtempSync(path.join(tmpdir(), 'petrel-first-'))
  const folder = path.join(root, 'packed')
  const linked = path.join(root, 'linked')
  const folders = { node: folder, python: linked, go: folder } as const
  const ports = new Map<string, number>()
  const running: ChildProcess[] = []
  let server: Server
  let browser: Browser
  let links: Readonly<Record<string, string>>

  before(async () => {
    for (const program of Object.keys(programs)) ports.set(program, await freePort())
    const origins = [...ports.values()].map((port) => `http://127.0.0.1:${port}`).join()
    const built = (async () => {
      await run('../sdk/ts', 'npm', 'run', 'build')
      const [, tarball = ''] = /(\S+\.tgz)\s*$/.exec(await run(root, 'npm', 'pack', '--silent', path.resolve('../sdk/ts'))) ?? []
      await Promise.all([application(folder, path.join(root, tarball)), application(linked, path.resolve('../sdk/ts'))])
    })()
    ;[server, browser] = await Promise.all([Server.start({ PETREL_LISTEN__ORIGINS: origins }), launch(), built])
    links = await server.users('support')
    const { key } = await server.admin('AdminService/CreateKey', { name: 'shop', scopes: ['tokens'] }) as { key: string }
    for (const f of [folder, linked]) writeFileSync(path.join(f, 'shop.key'), `${key}\n`)
    const made = spawnSync('go', ['build', '-o', path.join(folder, 'server'), path.join(files, 'server.go')], { encoding: 'utf8' })
    assert.equal(made.status, 0, made.stderr)
    for (const [program, [command = '', ...args]] of Object.entries(programs)) {
      running.push(spawn(command, args, { cwd: folders[program as keyof typeof folders], stdio: 'ignore', env: { ...process.env, PETREL_SERVER: server.url, PORT: String(ports.get(program)) } }))
    }
  })
  after(async () => {
    await browser.close()
    await Promise.all(running.map(async (p) => {
      if (p.exitCode === null && p.kill()) await once(p, 'exit')
    }))
    await server.stop()
    rmSync(root, { recursive: true })
    assert.deepEqual(troubles(), [])
  })

  /** Logs a user in to the shop, as the form of it does. */
  async function shop(program: string, user: string): Promise<Person> {
    const address = `http://127.0.0.1:${ports.get(program)}/`
    await answers(ports.get(program) ?? 0)
    const person = await Person.open(browser, address)
    await person.page.locator('input').fill(user)
    await person.page.getByRole('button', { name: 'Log in' }).click()
    return person
  }

  for (const program of Object.keys(programs)) {
    test(`a customer writes from <petrel-chat>, with a back end in ${program}`, async () => {
      const customer = await shop(program, `${program}-customer`)
      await customer.say(`hello from ${program}`)
      await customer.message(`hello from ${program}`).getByRole('img', { name: /Sent|Delivered|Read/ }).waitFor()
      await server.sendAs('support', { user: `${program}-customer`, text: `welcome, ${program}` })
      await customer.message(`welcome, ${program}`).waitFor()
      await customer.context.close()
    })
  }

  for (const [program, [command = '', ...args]] of Object.entries(programs)) {
    test(`a back end in ${program} outlives a request that it cannot answer`, async () => {
      const port = await freePort()
      const child = spawn(command, args, { cwd: folder, stdio: 'ignore', env: { ...process.env, PETREL_SERVER: `http://127.0.0.1:${await freePort()}`, PORT: String(port) } })
      running.push(child)
      await answers(port)
      const ask = (body: string): Promise<Response> => fetch(`http://127.0.0.1:${port}/chat-token`, { method: 'POST', headers: { Cookie: 'user=alice' }, body })
      assert.equal((await ask('{"device":{"id":"d","kind":"web"}}')).status, 502) // there is no chat server
      await ask('no JSON').catch(() => {}) // Python ends the connection
      assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 401)
      assert.equal(child.exitCode, null)
    })
  }

  test('the bundle of the page in React is small, as the guide says', () => {
    for (const f of [folder, linked]) {
      const bytes = statSync(path.join(f, 'pages/react.bundle.js')).size
      assert.ok(bytes <= 500_000, `${f}: ${bytes} bytes`)
    }
  })

  for (const [kind, program] of [['plain', 'go'], ['react', 'node'], ['react', 'python']] as const) {
    const customers = `${kind}-${program}`
    test(`a customer writes from the page in ${kind}, with the SDK ${folders[program] === linked ? 'linked' : 'packed'}`, async () => {
      const customer = await shop(program, `${customers}-customer`)
      await customer.page.locator('petrel-chat').waitFor()
      await customer.page.goto(`http://127.0.0.1:${ports.get(program)}/${kind}.html`)
      await customer.page.getByRole('status').getByText('live').waitFor()
      await customer.page.getByRole('textbox', { name: 'message' }).fill('ahoy')
      await customer.page.getByRole('button', { name: 'Send' }).click()
      await customer.page.getByRole('listitem').getByText(`${customers}-customer: ahoy`).waitFor()
      await server.sendAs('support', { user: `${customers}-customer`, text: 'what can I do for you?' })
      await customer.page.getByRole('listitem').getByText('support: what can I do for you?').waitFor()
      await customer.context.close()
    })
  }

  for (const [kind, program] of [['plain', 'node'], ['react', 'python']] as const) {
    test(`a message is read in the page in ${kind} when somebody looks at it`, async () => {
      const customer = await shop(program, `${kind}-reader`)
      const { page } = customer
      await page.locator('petrel-chat').waitFor()
      await page.addInitScript(() => { document.hasFocus = () => false })
      await page.goto(`http://127.0.0.1:${ports.get(program)}/${kind}.html`)
      await page.getByRole('status').getByText('live').waitFor()
      const question = `are you there, ${kind}?`
      await server.sendAs('support', { user: `${kind}-reader`, text: question })
      await page.getByRole('listitem').getByText(question).waitFor()
      const support = await (await Person.open(browser, links['support'] ?? '')).ready()
      await support.row(`${kind}-reader`).click()
      await support.stored(question)
      await support.page.waitForTimeout(500)
      const seen = support.message(question).getByRole('img', { name: 'Read' })
      assert.equal(await seen.count(), 0)
      await page.evaluate(() => {
        document.hasFocus = () => true
        dispatchEvent(new Event('focus'))
      })
      await seen.waitFor()
      await Promise.all([customer.context.close(), support.context.close()])
    })
  }

  test('curl logs a user in as the guide says', async () => {
    const command = /```sh\n(curl [^]*?)```/.exec(guide)?.[1]?.replace('http://127.0.0.1:8080', server.url).replace('examples/first-app/shop.key', path.join(folder, 'shop.key')) ?? ''
    const { stdout, stderr } = spawnSync('bash', ['-c', command], { encoding: 'utf8' })
    const answer = JSON.parse(stdout || stderr) as Record<string, string>
    const quoted = JSON.parse(/```json\n([^]*?)```/.exec(guide)?.[1] ?? '') as Record<string, string>
    assert.deepEqual(Object.keys(quoted).sort(), Object.keys(answer).filter((k) => k !== 'gateways').sort())
    for (const field of ['accessToken', 'refreshToken']) assert.ok(answer[field]?.startsWith(quoted[field]?.split('…')[0] ?? '?'), `${field}: ${answer[field]}`)
  })
})

/** Copies the application into a folder of its own, installs the SDK there as npm gets it, and builds. Other packages are those of web/: no registry is asked. */
async function application(folder: string, sdk: string): Promise<void> {
  cpSync(files, folder, { recursive: true, filter: (file) => !/node_modules|package-lock|\.bundle\.js$/.test(file) })
  mkdirSync(path.join(folder, 'node_modules'))
  for (const name of ['react', 'react-dom', 'scheduler', 'esbuild', '@esbuild']) cpSync(path.join('node_modules', name), path.join(folder, 'node_modules', name), { recursive: true })
  await run(folder, 'npm', 'install', '--offline', '--ignore-scripts', '--no-audit', '--no-fund', sdk)
  await run(folder, 'npm', 'run', 'build')
}

/** Runs a program in a folder until its end, and returns its output. */
async function run(folder: string, command: string, ...args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { cwd: folder })
  let [out, all] = ['', '']
  child.stdout.on('data', (text) => { out += text; all += text })
  child.stderr.on('data', (text) => { all += text })
  const [code] = await once(child, 'close')
  assert.equal(code, 0, `${command} ${args.join(' ')} in ${folder}:\n${all}`)
  return out
}

/** Waits until a back end listens. */
async function answers(port: number): Promise<void> {
  await until('the back end listens', () => fetch(`http://127.0.0.1:${port}/`).then(() => true, () => false))
}

const freePort = async (): Promise<number> => Number((await freeAddress()).split(':')[1])
