// A real server for tests, those of the web chat too: the binary on an empty folder.
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { eventually } from './until.js'

export const program = path.resolve(process.env['PETREL_PROGRAM'] ?? '') // scripts/bundle.mjs has what it is by itself

export class Server {
  readonly url: string
  readonly folder = mkdtempSync(path.join(tmpdir(), 'petrel-ts-'))
  /** Of all users that were made here. */
  readonly tokens: Record<string, string> = {}
  readonly #env: NodeJS.ProcessEnv
  readonly #operators: string
  readonly #log: string[] = []
  #child: ChildProcess | undefined
  #key = ''

  private constructor([http, tcp, operators]: readonly string[], settings: Readonly<Record<string, string>>) {
    this.url = `http://${http}`
    this.#operators = `http://${operators}`
    this.#env = {
      HOME: this.folder, PATH: process.env['PATH'], PETREL_LISTEN__HTTP: http, PETREL_LISTEN__TCP: tcp, PETREL_LISTEN__ADMIN: operators, PETREL_STORE__DIR: path.join(this.folder, 'data'),
      PETREL_LIMITS__SENDS_PER_S: '-1', PETREL_LIMITS__SEND_BURST: '-1', PETREL_ACCOUNTS__REGISTRATION: 'open', PETREL_ACCOUNTS__REGISTRATIONS_PER_IP_PER_H: '-1',
      ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, value.replace('{url}', this.url)])),
    }
  }

  /** `settings` are variables of its environment. In them `{url}` stands for its address. */
  static async start(settings: Readonly<Record<string, string>> = {}): Promise<Server> {
    const s = await Server.startNew(settings)
    const code = s.setupLink.split('#k=')[1]
    s.#key = (await s.admin('SetupService/Redeem', { code }) as { adminKey: string }).adminKey
    return s
  }

  /** The same, but nobody has used its setup link. `admin` works after somebody has, and told the key. */
  static async startNew(settings: Readonly<Record<string, string>> = {}): Promise<Server> {
    const s = new Server(await Promise.all([freeAddress(), freeAddress(), freeAddress()]), settings)
    await s.run()
    return s
  }

  /** Where operators find the server. */
  get operators(): string {
    return this.#operators
  }

  /** The link that the server has made for the first operator. */
  get setupLink(): string {
    return readFileSync(path.join(this.folder, 'data', 'setup-link'), 'utf8').trim()
  }

  set key(key: string) {
    this.#key = key
  }

  /** Starts the process, again after a kill at the same addresses. */
  async run(): Promise<void> {
    const child = spawn(program, ['serve'], { cwd: this.folder, env: this.#env, stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child = child
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (b: Buffer) => this.#log.push(b.toString()))
    let over = false
    child.once('exit', () => {
      over = true
    })
    await eventually('the server is ready', () => {
      if (over) throw new Error(`the server has ended: ${this.#log.join('')}`)
      return answers(`${this.url}/readyz`)
    })
  }

  /** Ends the process: SIGKILL as a crash does. */
  async kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    await once(child, 'exit')
  }

  /** Stops the process where it is: it neither answers nor ends its connections. It goes on when the function that this returns is called. */
  async freeze(): Promise<() => void> {
    const child = this.#child
    child?.kill('SIGSTOP')
    await eventually('the process stands still', () => child?.pid === undefined || !runs(child.pid)) // the signal is only sent
    return () => void child?.kill('SIGCONT')
  }

  /** A crash, and a start. `meanwhile` gets the folder with its data. */
  async restart(meanwhile?: (data: string) => Promise<void> | void): Promise<void> {
    await this.kill('SIGKILL')
    await meanwhile?.(path.join(this.folder, 'data'))
    await this.run()
  }

  async stop(): Promise<void> {
    await this.kill('SIGTERM')
    rmSync(this.folder, { recursive: true })
  }

  /** Keeps what the store has now. */
  async backUp(): Promise<void> {
    await this.petrel('backup', '--to', path.join(this.folder, 'backups'))
  }

  /** Has the store as it was at the backup, while the server does not run: it gets a new history id. */
  async putBack(): Promise<void> {
    const data = path.join(this.folder, 'data')
    rmSync(data, { recursive: true })
    await this.petrel('restore', '--from', path.join(this.folder, 'backups'), '--data', data)
  }

  /** Runs another command on the folder of the server. */
  async petrel(...args: readonly string[]): Promise<string> {
    const child = spawn(program, args, { cwd: this.folder, env: { ...this.#env, PETREL_SERVER: this.url, PETREL_ADMIN_SERVER: this.#operators, PETREL_ADMIN_KEY: this.#key } })
    const said: string[] = []
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (b: Buffer) => said.push(b.toString()))
    const [status] = await once(child, 'close') as [number]
    if (status !== 0) throw new Error(`petrel ${args.join(' ')}: ${said.join('')}`)
    return said.join('')
  }

  /** Calls a method as the operator. */
  async admin(method: string, request: object): Promise<unknown> {
    const answer = await fetch(`${this.#operators}/petrel.v1.${method}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${this.#key}` }, body: JSON.stringify(request),
    })
    if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }

  /** Makes users; the links open the chat as one of them. */
  async users(...users: readonly string[]): Promise<Readonly<Record<string, string>>> {
    const made = await this.admin('AdminService/CreateUsers', { users }) as { tokens: { user: string; token: string }[] }
    for (const { user, token } of made.tokens) this.tokens[user] = token
    return Object.fromEntries(made.tokens.map((t) => [t.user, `${this.url}/#t=${t.token}`]))
  }

  async sendAs(from: string, send: object): Promise<{ conv: string; seq: number }> {
    const { conv, seq } = await this.admin('AdminService/SendAs', { from, send: { clientMsgId: crypto.randomUUID(), ...send } }) as { conv: string; seq: string }
    return { conv, seq: Number(seq) }
  }
}

/** Starts a server with users. `origins` are those of pages that may call it. */
export async function startServer(users: readonly string[], origins: readonly string[] = [], settings: Readonly<Record<string, string>> = {}): Promise<Server> {
  const s = await Server.start({ ...(origins.length > 0 ? { PETREL_LISTEN__ORIGINS: origins.join(',') } : {}), ...settings })
  await s.users(...users)
  return s
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok
  } catch {
    return false
  }
}

/** Tells whether a thread of a process is neither stopped nor at its end. */
function runs(pid: number): boolean {
  return readdirSync(`/proc/${pid}/task`).some((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')
    return !'TtZX'.includes(stat.charAt(stat.lastIndexOf(')') + 2))
  })
}

/**
 * An address that is this process's until it ends. Whose it is, tests in other processes see by the
 * UDP port of the same number, as in internal/imtest/proctest. The port is below those that the system gives to a
 * connection: one of them might have the port when a server that was killed starts again.
 */
export async function freeAddress(): Promise<string> {
  for (;;) {
    const port = 11_000 + Math.floor(Math.random() * 19_000)
    const own = createSocket('udp4').unref()
    const s = createServer()
    try {
      own.bind(port, '127.0.0.1')
      await once(own, 'listening')
      await once(s.listen(port, '127.0.0.1'), 'listening')
    } catch {
      continue // somebody has it
    }
    s.close()
    await once(s, 'close')
    return `127.0.0.1:${port}`
  }
}
