import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { IDBFactory } from 'fake-indexeddb'
import WebSocket from 'ws'
import { browserStore, Client, type Status, type WebSocketClass } from '../src/index.js'
import { Profile } from './profile.js'
import { startServer, type Server } from './server.js'
import { until } from './until.js'

const tabs = Number(process.env['PETREL_TABS'] ?? 20)
const limit = { timeout: 300_000 } // only a fault meets it

let server: Server
before(async () => {
  server = await startServer(['alice', 'bob'])
})
after(() => server.stop())

const live = (s: Status): boolean => s.state === 'live' && s.synced

async function peer(f: (bob: Client) => Promise<void>): Promise<void> {
  const bob = new Client({ url: server.url, token: server.tokens['bob'] ?? '', webSocket: WebSocket as unknown as WebSocketClass })
  const end = bob.connect()
  await f(bob).finally(async () => {
    end()
    await bob.close()
  })
}

test('tabs share one connection, and each shows what the others do', limit, () => peer(async (bob) => {
  const p = new Profile(server)
  const [one, two, ...more] = Array.from({ length: tabs }, (_, i) => p.open(String(i))) as [Client, Client, ...Client[]]
  const three = more.at(-1) as Client
  const all = [one, two, ...more]
  for (const c of all) await until(c, () => live(c.status()))
  assert.deepEqual([...p.sockets.values()].map((s) => s.size).sort().slice(-2), [0, 1])
  const { conv, seq } = await (await two.send({ user: 'bob', text: 'from two' })).wait()
  for (const c of all) await until(c, () => c.messages(conv).filter((m) => m.seq === seq && m.text === 'from two').length === 1)
  await (await bob.send({ conv, text: 'to all' })).wait()
  for (const c of all) await until(c, () => c.conversation(conv)?.unread === 1)
  three.markRead(conv, seq + 1)
  for (const c of all) await until(c, () => c.conversation(conv)?.unread === 0)
  await p.close()
}))

test('when the tab that leads is gone another one leads, and sends what it has left', limit, () => peer(async () => {
  const p = new Profile(server)
  const one = p.open('1')
  await until(one, () => live(one.status()))
  const two = p.open('2')
  await until(two, () => live(two.status()))
  assert.equal(p.leader, '1')
  p.browser.freeze('1') // its frames do not leave it now
  for (const s of p.sockets.get('1') ?? []) s.pause()
  for (const s of p.sockets.get('1') ?? []) s.send = () => undefined
  await one.send({ user: 'bob', id: 'left-behind', text: 'left behind' })
  p.browser.kill('1')
  await until(two, () => live(two.status()) && p.leader === '2' || p.sockets.get('2')?.size === 1 && live(two.status()))
  await until(two, () => two.messages(two.direct('bob')).filter((m) => m.clientMsgId === 'left-behind').length === 1)
  for (const s of p.sockets.get('1') ?? []) s.terminate()
  await p.close()
}))

test('a frozen tab that leads is left, and writes nothing when it thaws', limit, () => peer(async (bob) => {
  const p = new Profile(server)
  const one = p.open('1')
  await until(one, () => live(one.status()))
  const two = p.open('2')
  await until(two, () => live(two.status()))
  const { conv } = await (await two.send({ user: 'bob', text: 'before' })).wait()
  await until(one, () => one.conversation(conv))
  p.browser.freeze('1')
  await until(two, () => p.sockets.get('2')?.size === 1 && live(two.status())) // it steals after 3 s
  await (await bob.send({ conv, text: 'meanwhile' })).wait()
  await until(two, () => two.messages(conv).some((m) => m.text === 'meanwhile'))
  p.browser.thaw('1')
  await until(one, () => p.sockets.get('1')?.size === 0 && live(one.status()))
  await until(one, () => one.messages(conv).some((m) => m.text === 'meanwhile'))
  one.markRead(conv, 1)
  await (await one.send({ conv, text: 'after' })).wait()
  await until(two, () => two.messages(conv).some((m) => m.text === 'after'))
  await p.close()
}))

test('a hidden tab hands over to one that the person sees', limit, async () => {
  const p = new Profile(server)
  const one = p.open('1')
  await until(one, () => live(one.status()))
  const two = p.open('2')
  await until(two, () => live(two.status()))
  p.browser.show('1', false)
  p.browser.skip(6000)
  await until(two, () => p.sockets.get('2')?.size === 1 && live(two.status()))
  await until(one, () => p.sockets.get('1')?.size === 0 && live(one.status()))
  await p.close()
})

test('logout in one tab wipes in all of them', limit, () => peer(async () => {
  const p = new Profile(server)
  const [one, two] = [p.open('1'), p.open('2')]
  for (const c of [one, two]) await until(c, () => live(c.status()))
  await (await two.send({ user: 'bob', text: 'secret' })).wait()
  assert.equal((await p.indexedDB.databases()).length, 1)
  await one.forget()
  await until(two, () => two.status().error?.code === 'revoked')
  assert.deepEqual(await p.indexedDB.databases(), [])
}))

test('two accounts live side by side', limit, async () => {
  const p = new Profile(server)
  const [alice, bob] = [p.open('1', 'alice'), p.open('2', 'bob')]
  for (const c of [alice, bob]) await until(c, () => live(c.status()))
  assert.deepEqual([alice.status().user, bob.status().user], ['alice', 'bob'])
  assert.deepEqual([...p.sockets.values()].map((s) => s.size), [1, 1])
  await p.close()
})

test('without locks each tab has its own connection, and says that nothing outlives it', limit, async () => {
  const client = new Client({
    url: server.url, token: server.tokens['alice'] ?? '', webSocket: WebSocket as unknown as WebSocketClass,
    store: browserStore('alice', { indexedDB: new IDBFactory() as unknown as globalThis.IDBFactory }),
  })
  client.connect()
  await until(client, () => live(client.status()))
  assert.deepEqual(client.status().warnings, ['memory', 'alone'])
  await client.close()
})
