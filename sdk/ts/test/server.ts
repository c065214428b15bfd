// A real server for tests: the binary on an empty folder, with users who have tokens.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

export interface Server {
  readonly url: string
  readonly folder: string
  readonly tokens: Readonly<Record<string, string>>
  /** Calls a method as the operator. */
  admin(method: string, request: object): Promise<unknown>
  /** Ends it at once, as kill -9 does, and starts it again at the same addresses. `meanwhile` gets the folder with its data. */
  restart(meanwhile?: (data: string) => Promise<void> | void): Promise<void>
  stop(): Promise<void>
}

export const program = path.resolve(process.env['PETREL_PROGRAM'] ?? '../../build/bin/petrel')

/** Starts a server. `origins` are those of pages that may call it, and `options` variables of its environment. */
export async function startServer(users: readonly string[], origins: readonly string[] = [], options: Readonly<Record<string, string>> = {}): Promise<Server> {
  const folder = mkdtempSync(path.join(tmpdir(), 'petrel-ts-'))
  const [http, tcp, operators] = await Promise.all([freePort(), freePort(), freePort()])
  const log: string[] = []
  const url = `http://127.0.0.1:${http}`
  let child: ChildProcess
  let exited: Promise<unknown>
  const start = async (): Promise<void> => {
    child = spawn(program, ['serve'], {
      cwd: folder, stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        HOME: folder, PATH: process.env['PATH'] ?? '', PETREL_LISTEN__HTTP: `127.0.0.1:${http}`, PETREL_LISTEN__TCP: `127.0.0.1:${tcp}`,
        PETREL_LISTEN__ADMIN: `127.0.0.1:${operators}`, PETREL_STORE__DIR: path.join(folder, 'data'),
        ...(origins.length > 0 ? { PETREL_LISTEN__ORIGINS: origins.join(',') } : {}), ...options,
      },
    })
    let over = false
    exited = once(child, 'exit').then(() => {
      over = true
    })
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (b: Buffer) => log.push(b.toString()))
    while (!await answers(`${url}/readyz`)) {
      if (over) throw new Error(`the server has ended: ${log.join('')}`)
    }
  }
  await start()
  let key = ''
  const admin = async (method: string, request: object): Promise<unknown> => {
    const answer = await fetch(`http://127.0.0.1:${operators}/petrel.v1.${method}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` }, body: JSON.stringify(request),
    })
    if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  const code = readFileSync(path.join(folder, 'data', 'setup-link'), 'utf8').trim().split('#k=')[1]
  key = (await admin('SetupService/Redeem', { code }) as { adminKey: string }).adminKey
  const made = await admin('AdminService/CreateUsers', { users }) as { tokens: { user: string; token: string }[] }
  return {
    url, folder, admin, tokens: Object.fromEntries(made.tokens.map((t) => [t.user, t.token])),
    async restart(meanwhile) {
      child.kill('SIGKILL')
      await exited
      await meanwhile?.(path.join(folder, 'data'))
      await start()
    },
    async stop() {
      child.kill('SIGTERM')
      await exited
      rmSync(folder, { recursive: true })
    },
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 10))
    return false
  }
}

async function freePort(): Promise<number> {
  const s = createServer().listen(0, '127.0.0.1')
  await once(s, 'listening')
  const { port } = s.address() as AddressInfo
  s.close()
  await once(s, 'close')
  return port
}
