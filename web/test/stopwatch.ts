// How long it takes from a clean clone to a message that a friend sees: `npm run stopwatch`.
// The server is built and started with `make serve`, where there is no Node; then two people, each
// at a browser of their own, sign up with the link that it prints, and one writes to the other.
// The figure does not have the time in which a person reads and types.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { launch, Person } from './browser.js'

const limitS = 60 // from the end of the build
const buildS = 400 // after this the script gives up

const folder = mkdtempSync(path.join(tmpdir(), 'petrel-stopwatch-'))
const clone = path.join(folder, 'petrel')
const seconds = (since: number): number => Math.round((performance.now() - since) / 100) / 10

/** The environment of the commands: it has none of Node's programs. */
function withoutNode(): NodeJS.ProcessEnv {
  const bin = path.join(folder, 'bin')
  mkdirSync(bin)
  for (const name of ['node', 'npm', 'npx']) {
    writeFileSync(path.join(bin, name), `#!/bin/sh\necho "${name} was called" >&2\nexit 127\n`)
    chmodSync(path.join(bin, name), 0o755)
  }
  const address = (): string => `127.0.0.1:${20_000 + Math.floor(Math.random() * 10_000)}`
  return { ...process.env, PATH: `${bin}:${process.env['PATH'] ?? ''}`, PETREL_LISTEN__HTTP: address(), PETREL_LISTEN__TCP: address(), PETREL_LISTEN__ADMIN: address() }
}

/** Starts the server and gives its link as soon as it is printed. */
async function serve(env: NodeJS.ProcessEnv): Promise<{ child: ChildProcess; link: string }> {
  const child = spawn('make', ['serve', `ARGS=--data ${path.join(folder, 'data')}`], { cwd: clone, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const link = await new Promise<string>((resolve, reject) => {
    const took = (b: Buffer): void => {
      said += b.toString()
      const found = /"chat":"([^"]+)"/.exec(said)?.[1] // where no terminal reads it, the banner is JSON
      if (found) resolve(found)
    }
    child.stdout.on('data', took)
    child.stderr.on('data', took)
    child.once('exit', (status) => reject(new Error(`make serve has ended with ${status}: ${said}`)))
    setTimeout(() => reject(new Error(`no link after ${limitS} s: ${said}`)), limitS * 1000).unref()
  })
  return { child, link }
}

async function signUp(person: Person, user: string): Promise<void> {
  await person.page.getByRole('button', { name: 'Make a new account' }).click()
  await person.page.getByLabel('User name').fill(user)
  await person.page.getByLabel('Password').fill(`${user} has a long password`)
  await person.page.getByRole('button', { name: 'Sign up' }).click()
  await person.ready()
}

let child: ChildProcess | undefined
const browser = await launch()
try {
  const root = path.resolve(import.meta.dirname, '../../../..')
  execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${root}`, clone])
  const env = withoutNode()
  const build = performance.now()
  execFileSync('make', ['build'], { cwd: clone, env, stdio: ['ignore', 'ignore', 'inherit'], timeout: buildS * 1000 })
  console.log(`build    ${seconds(build)} s`)
  const begun = performance.now()
  const server = await serve(env)
  child = server.child
  console.log(`link     ${seconds(begun)} s   ${server.link}`)
  const [ann, ben] = await Promise.all([Person.open(browser, server.link), Person.open(browser, server.link)]) as [Person, Person]
  console.log(`pages    ${seconds(begun)} s`)
  await Promise.all([signUp(ann, 'ann'), signUp(ben, 'ben')])
  console.log(`accounts ${seconds(begun)} s`)
  await ann.page.getByRole('searchbox').fill('@ben')
  await ann.page.locator('.people-row').click()
  await ann.say('hello ben')
  await ben.row('ann').click()
  await ben.message('hello ben').waitFor()
  const took = seconds(begun)
  console.log(`message  ${took} s (limit ${limitS} s)`)
  if (took > limitS) process.exitCode = 1
} finally {
  await browser.close()
  if (child && child.exitCode === null) {
    child.kill('SIGTERM') // make passes it on to the server
    await once(child, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
}
