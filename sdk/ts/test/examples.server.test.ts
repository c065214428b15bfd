import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import WebSocket from 'ws'
import { Client, type WebSocketClass } from '../src/index.js'
import { startServer } from './server.js'
import { until } from './until.js'

const lines = (file: string): number => readFileSync(file, 'utf8').trimEnd().split('\n').length

describe('examples', { timeout: 300_000 }, () => {
  test('the first message takes at most 7 lines, and a bot 10; both run', async () => {
    assert.ok(lines('examples/hello.js') <= 7 && lines('examples/echo.js') <= 10)
    const folder = mkdtempSync(path.join(tmpdir(), 'petrel-examples-'))
    const server = await startServer(['alice', 'bob', 'carol'])
    const bob = new Client({ url: server.url, token: server.tokens['bob'] ?? '', webSocket: WebSocket as unknown as WebSocketClass })
    const end = bob.connect()
    const run = (name: string, user: string, ...more: string[]) => spawn(process.execPath, [`examples/${name}.js`, server.url, ...more], {
      env: { ...process.env, PETREL_TOKEN: server.tokens[user] }, stdio: ['ignore', 'pipe', 'inherit'],
    })
    const echo = run('echo', 'carol', path.join(folder, 'echo'))
    const hello = run('hello', 'alice')
    let printed = ''
    hello.stdout.on('data', (b: Buffer) => {
      printed += b.toString()
    })
    assert.deepEqual(await once(hello, 'close'), [0, null])
    assert.equal(printed, 'stored with seq 1\n')
    await bob.send({ user: 'carol', text: 'ahoy' })
    await until(bob, () => bob.messages(bob.direct('carol')).some((m) => m.text === 'You said: ahoy'))
    echo.kill('SIGKILL')
    await once(echo, 'close')
    end()
    await bob.close()
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  test('the package can be required, and imported on a server without a window', async () => {
    const required = createRequire(path.resolve('package.json'))('@petrel-im/sdk') as typeof import('../src/index.js')
    const name = '@petrel-im/sdk'
    const imported = await import(name) as typeof import('../src/index.js')
    const error = new required.PetrelError({ kind: 'link', code: '', message: '', hint: '', settled: false, retryable: false, retryAfterMs: 0, requestId: '', head: 0 })
    assert.notEqual(required.PetrelError, imported.PetrelError)
    assert.ok(imported.isPetrelError(error))
    assert.deepEqual(new imported.Client({ url: 'ws://a', token: 't', store: imported.browserStore('alice') }).conversations(), [])
  })
})
