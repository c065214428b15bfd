// Tabs of one browser, in one process, with a server that is made for the test.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { IDBFactory as FakeFactory } from 'fake-indexeddb'
import { browserStore, Client, type Outgoing } from '../src/index.js'
import { FakeConversation } from './fake_conversation.js'
import { FakeServer } from './fake_server.js'
import { FakeBrowser } from './fakes.js'
import { eventually, soon, until } from './until.js'

interface Tab {
  readonly client: Client
  readonly server: FakeServer
  /** How many transactions that write have ended in it. */
  readonly wrote: () => number
}

class Tabs {
  readonly browser = new FakeBrowser()
  readonly indexedDB = new FakeFactory() as unknown as IDBFactory
  readonly conversation = new FakeConversation()
  readonly #all: Client[] = []

  /** Opens a tab, which connects unless it is offline. */
  async open(name: string, offline = false): Promise<Tab> {
    const server = new FakeServer()
    server.answer = (f) => offline ? undefined : this.conversation.answer(f)
    const { indexedDB, wrote } = counted(this.indexedDB)
    const client = new Client({
      url: 'ws://a', token: 't', transport: server, clock: this.browser.clock(name), store: browserStore('alice', { indexedDB, browser: this.browser.tab(name) }),
    })
    this.#all.push(client)
    client.connect()
    if (offline) await client.open()
    else await until(client, () => client.status().synced)
    return { client, server, wrote }
  }

  /** The tab is gone without a word. */
  kill(name: string): void {
    this.browser.kill(name)
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((c) => c.close()))
  }
}

/** The databases as one tab has them, which counts its transactions that have written or given it up. */
function counted(all: IDBFactory): { indexedDB: IDBFactory; wrote: () => number } {
  let n = 0
  const open = (...args: Parameters<IDBFactory['open']>): IDBOpenDBRequest => {
    const request = all.open(...args)
    request.addEventListener('success', () => {
      const db = request.result
      const begin = db.transaction.bind(db)
      db.transaction = (tables, mode, options) => {
        const t = begin(tables, mode, options)
        if (mode === 'readwrite') for (const end of ['complete', 'abort']) t.addEventListener(end, () => n++)
        return t
      }
    })
    return request
  }
  return { indexedDB: new Proxy(all, { get: (of, key) => key === 'open' ? open : (Reflect.get(of, key) as () => unknown).bind(of) }), wrote: () => n }
}

/** Waits for an event of a request of the database. */
const once = (of: IDBRequest, event: string): Promise<unknown> => new Promise((resolve) => of.addEventListener(event, resolve, { once: true }))

const states = (of: readonly Outgoing[]): string[] => of.map((o) => `${o.id} ${o.state}${o.error ? ` ${o.error.code}` : ''}`)

describe('tabs', { timeout: 300_000 }, () => {
  test('all tabs show what one of them sends, and what was refused until it is discarded, also after a reload', async () => {
    const tabs = new Tabs()
    const [one, two] = [await tabs.open('1'), await tabs.open('2')]
    one.server.answer = (f) => f.send ? undefined : tabs.conversation.answer(f) // it hangs
    const sent = await two.client.send({ conv: 'g1', id: 'a', text: 'hi' })
    for (const { client } of [one, two]) assert.deepEqual(states(await until(client, () => client.pending('g1').length === 1 && client.pending('g1'))), ['a sending'])
    const id = await until(one.client, () => one.server.got.find((f) => f.send)?.id)
    one.server.push({ id, error: { code: 'not_member', message: 'you left', settled: true } })
    await assert.rejects(soon(sent.wait()), /not_member/)
    const three = await tabs.open('3')
    for (const { client } of [one, two, three]) await until(client, () => states(client.pending('g1')).join() === 'a rejected not_member')
    assert.equal(await three.client.unsent(), 0)
    await tabs.close()
    const four = await tabs.open('4', true)
    const five = await tabs.open('5', true)
    assert.deepEqual(states(four.client.pending('g1')), ['a rejected not_member'])
    five.client.discard('a')
    await until(four.client, () => four.client.pending('g1').length === 0)
    await tabs.close()
    const six = await tabs.open('6', true)
    assert.deepEqual(six.client.pending('g1'), [])
    await tabs.close()
  })

  test('a message of a tab that is gone is sent by another one, and its fate told in all', async () => {
    const tabs = new Tabs()
    const [one, two, three] = [await tabs.open('1'), await tabs.open('2'), await tabs.open('3')]
    one.server.answer = (f) => f.send ? undefined : tabs.conversation.answer(f)
    const sent = await three.client.send({ conv: 'g1', id: 'a', text: 'hi' })
    await until(one.client, () => one.server.got.some((f) => f.send))
    tabs.kill('1')
    assert.equal((await soon(sent.wait())).seq, 1)
    for (const { client } of [two, three]) await until(client, () => client.pending('g1').length === 0 && client.messages('g1').length === 1)
    assert.equal(tabs.conversation.copies('a'), 1)
    await tabs.close()
  })

  for (const thaws of ['before it has stored another after', 'after it has tried to store one']) test(`a message that a frozen tab and the one in its place both send is stored once; it thaws ${thaws}`, async () => {
    const tabs = new Tabs()
    const [one, two] = [await tabs.open('1'), await tabs.open('2')]
    one.server.answer = (f) => f.send ? undefined : tabs.conversation.answer(f)
    const { id } = await one.client.send({ conv: 'g1', text: 'hi' })
    const request = await until(one.client, () => one.server.got.find((f) => f.send?.clientMsgId === id))
    await until(two.client, () => two.client.pending('g1').some((o) => o.id === id))
    tabs.browser.freeze('1')
    tabs.conversation.write(20) // nobody was told: after is far behind now
    await until(two.client, () => tabs.conversation.copies(id) === 1)
    tabs.conversation.write(20)
    const before = one.wrote()
    one.server.push({ id: request.id ?? '', error: { code: 'behind', head: String(tabs.conversation.head) } }) // so far one's only attempt
    one.server.answer = (f) => tabs.conversation.answer(f)
    if (thaws.startsWith('after')) await eventually('it has tried to store another after', () => one.wrote() > before)
    tabs.browser.thaw('1')
    await until(one.client, () => one.client.pending('g1').length === 0 && one.client.status().synced)
    await until(two.client, () => two.client.pending('g1').length === 0)
    assert.equal(tabs.conversation.copies(id), 1)
    await tabs.close()
  })

  test('two tabs that log out at the same time leave nothing', async () => {
    const tabs = new Tabs()
    const all = [await tabs.open('1'), await tabs.open('2')]
    await soon(Promise.all(all.map(({ client }) => client.forget())))
    assert.deepEqual(await tabs.indexedDB.databases(), [])
  })

  test('who takes over keeps what the former tab has written offline', async () => {
    const tabs = new Tabs()
    tabs.conversation.write(3)
    const [one, two] = [await tabs.open('1'), await tabs.open('2')]
    const device = one.server.got.find((f) => f.hello)?.hello?.device
    tabs.browser.freeze('2') // it hears of nothing
    for (const { server } of [one, two]) server.answer = () => undefined
    one.server.drop()
    one.client.markRead('g1', 3)
    await one.client.send({ conv: 'g1', id: 'a', text: 'offline' })
    await until(one.client, () => one.client.conversation('g1')?.unread === 0)
    tabs.kill('1')
    two.server.answer = (f) => tabs.conversation.answer(f)
    tabs.browser.thaw('2')
    await until(two.client, () => two.client.conversation('g1')?.read === 3 && tabs.conversation.copies('a') === 1)
    assert.equal(two.server.got.find((f) => f.hello)?.hello?.device, device)
    await until(two.client, () => two.server.got.some((f) => f.cursor?.read === '3'))
    await tabs.close()
  })

  test('what a tab reads offline is told the server by another one, also after both are gone', async () => {
    const tabs = new Tabs()
    tabs.conversation.write(3)
    const [one, two] = [await tabs.open('1'), await tabs.open('2')]
    one.server.answer = () => undefined
    one.server.drop()
    await until(two.client, () => two.client.status().state !== 'live')
    two.client.markRead('g1', 3)
    await until(one.client, () => one.client.conversation('g1')?.read === 3)
    tabs.kill('2')
    const request = tabs.indexedDB.open('petrel:alice')
    await once(request, 'success')
    const stored = async (): Promise<number> => {
      const read = request.result.transaction('rows').objectStore('rows').get('c/g1')
      await once(read, 'success')
      return (read.result as { wantRead: number }).wantRead
    }
    while (await stored() !== 3) await new Promise((resolve) => setImmediate(resolve))
    request.result.close()
    tabs.kill('1')
    const three = await tabs.open('3')
    assert.equal(three.client.conversation('g1')?.read, 3)
    await until(three.client, () => three.server.got.some((f) => f.cursor?.read === '3'))
    await tabs.close()
  })

  test('a message that a tab has stored and told nobody is sent once another tab is opened', async () => {
    const tabs = new Tabs()
    const one = await tabs.open('1')
    const request = tabs.indexedDB.open('petrel:alice')
    await once(request, 'success')
    const send = { conv: 'g1', user: '', clientMsgId: 'k', type: '', text: 'of a tab that nobody knew', needs: [], after: 0 }
    const writing = request.result.transaction('rows', 'readwrite')
    writing.objectStore('rows').put({ send, n: 1, composedMs: Date.now(), look: false, stale: false }, 'o/k')
    await new Promise((resolve) => writing.addEventListener('complete', resolve))
    const two = await tabs.open('2', true)
    for (const { client } of [one, two]) await until(client, () => tabs.conversation.copies('k') === 1 && client.pending('g1').length === 0)
    request.result.close()
    await tabs.close()
  })

  test('a tab that hears of a logout stores nothing any more', async () => {
    const tabs = new Tabs()
    const [one, two] = [await tabs.open('1'), await tabs.open('2')]
    await one.client.logout({ timeoutMs: 10 })
    await until(two.client, () => two.client.status().error?.code === 'revoked')
    await assert.rejects(two.client.send({ conv: 'g1', text: 'late' }))
    assert.deepEqual(await tabs.indexedDB.databases(), [])
    await tabs.close()
  })

  test('a tab that is opened later hears of a message that was sent, and whose entry nobody has loaded', async () => {
    const tabs = new Tabs()
    const one = await tabs.open('1')
    one.client.focus([])
    tabs.conversation.write(3) // of which it is not told
    await soon((await one.client.send({ conv: 'g1', id: 'a', text: 'hi' })).wait())
    one.server.answer = (f) => f.sync ? { sync: { token: 'AQ==' } } : tabs.conversation.answer(f)
    const two = await tabs.open('2', true)
    two.client.focus([])
    await until(two.client, () => states(two.client.pending('g1')).join() === 'a sent')
    assert.equal(await two.client.unsent(), 0)
    await tabs.close()
  })

  test('the data is removed at once, although a frozen tab keeps the database open', async () => {
    const tabs = new Tabs()
    const one = await tabs.open('1')
    await (await one.client.send({ conv: 'g1', text: 'secret' })).wait()
    const request = tabs.indexedDB.open('petrel:alice') // it does not hear that it has to close
    await once(request, 'success')
    assert.equal(await one.client.logout({ timeoutMs: 10 }), false) // the server does not know the call
    const rows = request.result.transaction('rows').objectStore('rows').count()
    await once(rows, 'success')
    assert.equal(rows.result, 0)
    request.result.close()
  })
})
