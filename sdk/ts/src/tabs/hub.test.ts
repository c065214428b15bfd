import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { FakeServer, usual } from '../../test/fake_server.js'
import type { ClientFrameJson, ServerFrameJson } from '../wire/frames_gen.js'
import { Hub } from './hub.js'
import type { ToAll, ToTab } from './messages.js'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A hub whose tab is connected, and tabs 'a' and 'b' that use it. */
async function setUp(): Promise<{ hub: Hub; server: FakeServer; posted: (ToTab | ToAll)[]; own: ServerFrameJson[]; ask(tab: string, frame: ClientFrameJson): Promise<void>; send(frame: ClientFrameJson): Promise<void> }> {
  const server = new FakeServer()
  const posted: (ToTab | ToAll)[] = []
  const own: ServerFrameJson[] = []
  const hub = new Hub(server, (m) => posted.push(m))
  const connection = hub.connect('ws://a', { opened: () => {}, frame: (f) => own.push(f as ServerFrameJson), closed: () => {} })
  const send = (frame: ClientFrameJson): Promise<void> => {
    connection.send(JSON.stringify(frame))
    return turn()
  }
  await send({ id: '1', hello: {} })
  const ask = (tab: string, frame: ClientFrameJson): Promise<void> => {
    hub.take({ kind: 'request', tab, conn: 1, frame })
    return turn()
  }
  for (const tab of ['a', 'b']) {
    hub.take({ kind: 'open', tab, conn: 1 })
    await ask(tab, { id: '1', hello: {} })
  }
  posted.length = own.length = server.got.length = 0
  return { hub, server, posted, own, ask, send }
}

describe('hub', { timeout: 300_000 }, () => {
  test('what one tab has sent is read back and told to the others', async () => {
    const { server, posted, own, ask } = await setUp()
    const message = { conv: 'g1', seq: '5', from: 'alice', clientMsgId: 'k', text: 'hi' }
    server.answer = (f) => f.send ? { ack: { conv: 'g1', seq: '5' } } : f.history ? { history: { messages: [message] } } : usual(f)
    await ask('a', { id: '2', send: { conv: 'g1', clientMsgId: 'k', text: 'hi' } })
    assert.deepEqual(server.got.map((f) => f.history), [undefined, { conv: 'g1', after: '4', before: '6', limit: 1 }])
    assert.deepEqual(posted, [
      { kind: 'answer', tab: 'a', conn: 1, frame: { id: '2', ack: { conv: 'g1', seq: '5' } } },
      { kind: 'pushed', frame: { events: { messages: [message] } }, except: 'a' },
    ])
    assert.deepEqual(own, [{ events: { messages: [message] } }])
  })

  test('the server hears once how far all tabs are, and each tab gets an answer', async () => {
    const { server, posted, own, ask, send } = await setUp()
    server.answer = (f) => f.cursor ? { cursor: { conv: 'g1', delivered: '7' } } : usual(f)
    await Promise.all([ask('a', { id: '2', cursor: { conv: 'g1', delivered: '7' } }), ask('b', { id: '9', cursor: { conv: 'g1', delivered: '7' } })])
    await send({ id: '3', cursor: { conv: 'g1', delivered: '6' } })
    assert.equal(server.got.length, 1)
    assert.deepEqual(posted.flatMap((m) => m.kind === 'answer' ? [[m.tab, m.frame.id]] : []), [['a', '2'], ['b', '9']])
    assert.deepEqual(own.map((f) => f.id ?? f.events?.receipts?.[0]?.delivered), ['7', '3'])
    await ask('b', { id: '10', cursor: { conv: 'g1', read: '7' } })
    assert.equal(server.got.length, 2)
  })

  test('the watch is that of all tabs together, with the conversation of one of them', async () => {
    const { server, ask, hub } = await setUp()
    await ask('a', { id: '2', watch: { users: ['bob', 'carol'], conv: 'g1' } })
    await ask('b', { id: '2', watch: { users: ['bob', 'dave'] } })
    hub.gone('a')
    await turn()
    assert.deepEqual(server.got.map((f) => f.watch), [{ users: ['bob', 'carol'], conv: 'g1' }, { users: ['bob', 'carol', 'dave'], conv: 'g1' }, undefined, { users: ['bob', 'dave'], conv: '' }].filter((w) => w !== undefined))
  })

  test('the focus is that of all tabs together', async () => {
    const { hub, server, ask, send } = await setUp()
    const last = (): unknown => server.got.filter((f) => f.focus).at(-1)?.focus
    await send({ id: '2', focus: { convs: ['g1'] } })
    assert.deepEqual(last(), { all: true }) // the others want everything
    await ask('a', { id: '2', focus: { convs: ['g2'] } })
    await ask('b', { id: '2', focus: { convs: ['g1', 'g3'] } })
    assert.deepEqual(last(), { convs: ['g1', 'g2', 'g3'] })
    hub.gone('a')
    assert.deepEqual(last(), { convs: ['g1', 'g3'] })
  })

  test('the tabs stay within the limits of one session together', async () => {
    const { server, ask } = await setUp()
    server.answer = () => undefined
    for (let i = 2; i < 42; i++) await ask(i % 2 ? 'a' : 'b', { id: String(i), history: { conv: 'g1' } })
    assert.equal(server.got.length, 16)
    server.push({ id: server.got[0]?.id ?? '', history: {} })
    assert.equal(server.got.filter((f) => f.history).length, 17)
  })

  test('a cursor whose tab is gone before it is sent is answered to the others', async () => {
    const { hub, server, posted, ask } = await setUp()
    server.answer = () => undefined
    for (let i = 2; i < 18; i++) await ask('a', { id: String(i), history: { conv: 'g1' } })
    await ask('a', { id: '18', cursor: { conv: 'g1', read: '7' } })
    await ask('b', { id: '2', cursor: { conv: 'g1', read: '7' } })
    hub.gone('a')
    server.push({ id: server.got[0]?.id ?? '', history: {} })
    const cursor = server.got.find((f) => f.cursor)
    server.push({ id: cursor?.id ?? '', cursor: { conv: 'g1', read: '7' } })
    assert.deepEqual(posted.filter((m) => m.kind === 'answer').map((m) => [m.tab, m.frame.id]), [['b', '2']])
  })

  test('a ping of another tab is answered here, and what the server pushes goes to all', async () => {
    const { server, posted, own, ask } = await setUp()
    await ask('a', { id: '2', ping: {} })
    assert.deepEqual(posted.splice(0), [{ kind: 'answer', tab: 'a', conn: 1, frame: { id: '2', pong: {} } }])
    server.push({ id: '99', ping: {} })
    await ask('a', { id: '99', pong: {} })
    assert.deepEqual([posted, own, server.got], [[{ kind: 'pushed', frame: { id: '99', ping: {} } }], [{ id: '99', ping: {} }], []])
  })

  test('with the connection all tabs lose theirs', async () => {
    const { hub, server, posted, ask } = await setUp()
    server.drop()
    assert.deepEqual(posted.map((m) => m.kind), ['down'])
    await ask('a', { id: '2', sync: {} })
    hub.take({ kind: 'open', tab: 'a', conn: 2 })
    assert.deepEqual(posted.map((m) => m.kind), ['down', 'closed'])
    assert.deepEqual(server.got, [])
  })

  // The server was slow, and the tab has given the connection up. If the others believed in it,
  // they would be live for ever without a server.
  test('a welcome that comes over a connection that was given up is none', async () => {
    const server = new FakeServer()
    const posted: (ToTab | ToAll)[] = []
    const hub = new Hub(server, (m) => posted.push(m))
    hub.connect('ws://a', { opened: () => {}, frame: () => {}, closed: () => {} }).close()
    server.push({ id: '1', ...usual({ hello: {} }) })
    hub.take({ kind: 'open', tab: 'a', conn: 1 })
    assert.deepEqual(posted.map((m) => m.kind), ['closed'])
  })
})
