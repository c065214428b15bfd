import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { IDBFactory } from 'fake-indexeddb'
import { Database, Fenced } from './indexeddb.js'
import { fileStore } from './filestores.js'
import type { Row, Store } from './store.js'
import { memoryStore } from './store.js'
import { isPetrelError } from './errors.js'

const row = (key: string, value: unknown): Row => ({ key, value }) as Row
const factory = (): globalThis.IDBFactory => new IDBFactory() as unknown as globalThis.IDBFactory

/** Runs f with a folder of its own. */
async function inFolder(f: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'petrel-store-'))
  await f(folder).finally(() => rmSync(folder, { recursive: true }))
}

async function table(store: { load(): Promise<readonly { key: string; value: unknown }[]> }): Promise<Record<string, unknown>> {
  return Object.fromEntries((await store.load()).map(({ key, value }) => [key, value]))
}

/** Tests that every store passes. open makes another one of the same data. */
async function keeps(open: () => Store): Promise<void> {
  const first = open()
  assert.deepEqual(await first.load(), [])
  await first.write([row('a', { text: 'x', data: new Uint8Array([1, 2, 255]) }), row('b', 1)], true)
  await first.write([row('b', null), row('c', { n: 3 })], false)
  await first.close()
  const second = open()
  assert.deepEqual(await table(second), { a: { text: 'x', data: new Uint8Array([1, 2, 255]) }, c: { n: 3 } })
  await second.wipe()
  const third = open()
  assert.deepEqual(await third.load(), [])
  await third.close()
}

describe('stores', { timeout: 300_000 }, () => {
  test('memory keeps rows', () => {
    const store = memoryStore()
    return keeps(() => store)
  })

  test('a file keeps rows', () => inFolder((folder) => keeps(() => fileStore(path.join(folder, 'deep', 's')))))

  test('a database keeps rows', () => {
    const shared = factory()
    return keeps(() => new Database('d', shared) as unknown as Store)
  })

  test('a file that a crash has cut off opens with the writes that are whole', () => inFolder(async (folder) => {
    const file = path.join(folder, 's')
    const store = fileStore(file)
    await store.load()
    await store.write([row('a', 1)], true)
    await store.close()
    const whole = readFileSync(file, 'utf8')
    appendFileSync(file, whole.replace('1]', '2]') + whole.slice(0, -4))
    const again = fileStore(file)
    assert.deepEqual(await table(again), { a: 1 })
    await again.close()
    assert.equal(readFileSync(file, 'utf8'), whole)
    assert.equal(statSync(file).mode & 0o777, 0o600)
  }))

  test('a file is open once', () => inFolder(async (folder) => {
    const file = path.join(folder, 's')
    const store = fileStore(file)
    await store.load()
    await assert.rejects(fileStore(file).load(), (e) => isPetrelError(e) && e.kind === 'store' && e.message.includes('in use'))
    await store.close()
  }))

  test('after a write that failed the file takes further ones, and none stands behind a torn one', () => inFolder(async (folder) => {
    const file = path.join(folder, 's')
    const store = fileStore(file)
    await store.load()
    await store.write([row('a', 1)], true)
    const limit = (bytes: string): void => void execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:unlimited`])
    limit('4096') // as a disk that is full
    try {
      await assert.rejects(store.write([row('b', 'x'.repeat(10_000))], false))
    } finally {
      limit('unlimited')
    }
    await store.write([row('c', 3)], true)
    await store.close()
    const again = fileStore(file)
    assert.deepEqual(await table(again), { a: 1, c: 3 })
    await again.close()
  }))

  test('of processes that open a file at once one has it, and none after it was killed', () => inFolder(async (folder) => {
    const file = path.join(folder, 's')
    const code = `const { fileStore } = await import(${JSON.stringify(path.resolve('dist/esm/filestores.js'))})
      fileStore(${JSON.stringify(file)}).load().then(() => console.log('open'), () => console.log('refused'))
      setInterval(() => {}, 1000)`
    for (let round = 0; round < 2; round++) {
      const all = Array.from({ length: 4 }, () => spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] }))
      const said = await Promise.all(all.map(async (child) => String((await once(child.stdout, 'data'))[0]).trim()))
      await assert.rejects(fileStore(file).load(), (e) => isPetrelError(e) && e.message.includes('in use'))
      await Promise.all(all.map((child) => {
        child.kill('SIGKILL')
        return once(child, 'close')
      }))
      assert.deepEqual(said.sort(), ['open', 'refused', 'refused', 'refused'])
    }
  }))

  test('a file is rewritten when most of it is outdated', () => inFolder(async (folder) => {
    const file = path.join(folder, 's')
    const store = fileStore(file)
    await store.load()
    for (let i = 0; i < 40; i++) await store.write([row('a', 'x'.repeat(50_000) + i)], false)
    await store.close()
    assert.ok(statSync(file).size < 1 << 20, `${statSync(file).size} bytes`)
    const again = fileStore(file)
    assert.deepEqual(await table(again), { a: 'x'.repeat(50_000) + 39 })
    await again.close()
  }))

  test('a term that is over writes nothing', async () => {
    const db = new Database('d', factory())
    const { term: one } = await db.begin(false)
    await db.write([row('a', 1), row('o/1', {})], false, one)
    const { term: two, left } = await db.begin(true)
    assert.deepEqual(left.map((r) => r.key), ['a', 'o/1'])
    await db.write([], false, two, new Map<string, unknown>([['b', 2]]))
    await assert.rejects(db.write([row('a', 3)], false, one), Fenced)
    await db.write([row('c', 4)], false, two)
    assert.deepEqual(await table(db), { b: 2, c: 4, 'o/1': {} })
    await db.close()
  })

  test('a dead connection is opened again, once', async () => {
    const inner = factory()
    let opened = 0
    let dead = 1
    const flaky = {
      open(name: string, version: number) {
        opened++
        const request = inner.open(name, version)
        request.addEventListener('success', () => {
          if (dead-- > 0) request.result.close() // as Safari does
        })
        return request
      },
    } as unknown as globalThis.IDBFactory
    const db = new Database('d', flaky)
    await db.write([row('a', 1)], true)
    assert.equal(opened, 2)
    dead = 100
    await db.close()
    await assert.rejects(db.write([row('a', 2)], true), (e) => isPetrelError(e) && e.kind === 'store')
    assert.equal(opened, 4)
  })

  test('a database that another tab removes takes nothing more', async () => {
    const shared = factory()
    const [one, two] = [new Database('d', shared), new Database('d', shared)]
    await one.write([row('a', 1)], false)
    await two.load()
    await two.wipe()
    await assert.rejects(one.write([row('a', 2)], false), (e) => isPetrelError(e) && e.kind === 'store' && e.message.includes('removed'))
    assert.deepEqual(await shared.databases(), [])
  })
})
