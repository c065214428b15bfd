// The server in memory that applications test with.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Client, isPetrelError, type Transport } from '../src/index.js'
import { HistoryWindow } from '../src/history.js'
import { TestServer } from '../src/testing.js'
import type { ServerFrameJson } from '../src/wire/frames_gen.js'
import { idle, soon, until } from './until.js'

/** Runs f with clients of some users, which are connected. */
async function connected(server: Transport, users: readonly string[], f: (...clients: Client[]) => Promise<void>): Promise<void> {
  // The clock of the clients goes a thousand times as fast, so that they connect again at once.
  const clock = { now: () => performance.now() * 1000, after: (_: number, ring: () => void) => {
    const timer = setImmediate(ring)
    return () => clearImmediate(timer)
  } }
  const clients = users.map((user) => new Client({ url: 'ws://test', token: user, transport: server, clock }))
  for (const c of clients) c.connect()
  for (const c of clients) await until(c, () => c.status().synced)
  await f(...clients)
  for (const c of clients) await c.close()
}

const texts = (c: Client, conv: string): string => c.messages(conv).map((m) => `${m.seq} ${m.from}: ${m.text}`).join(', ')

describe('the server for tests', { timeout: 300_000 }, () => {
  test('what one client sends to a group, another one gets, counts as unread, and reads', () => {
    const server = new TestServer()
    const boat = server.group('boat', 'alice', 'bob')
    server.write('bob', { conv: boat, text: 'who sails?' })
    return connected(server, ['alice', 'bob'], async (alice, bob) => {
      assert.equal(alice.conversation(boat)?.title, 'boat')
      assert.equal(alice.unread().messages, 1)
      const { seq } = await soon((await alice.send({ conv: boat, text: 'me' })).wait())
      assert.equal(seq, 2)
      await until(bob, () => bob.messages(boat).length === 2)
      assert.equal(texts(bob, boat), '1 bob: who sails?, 2 alice: me')
      alice.markRead(boat, 1)
      await until(alice, () => alice.unread().messages === 0)
      await alice.editText(boat, 2, 'I do')
      await until(bob, () => bob.messages(boat).some((m) => m.text === 'I do' && m.editedBy === 3))
    })
  })

  test('a first message to a user makes a conversation of both', () => connected(new TestServer(), ['alice', 'bob'], async (alice, bob) => {
    await soon((await alice.send({ user: 'bob', text: 'hi' })).wait())
    const conv = await until(bob, () => bob.conversations()[0])
    assert.deepEqual([conv.peer, texts(bob, conv.id)], ['alice', '1 alice: hi'])
  }))

  test('a send that is refused fails for good, or is made again, as the test wants', () => {
    const server = new TestServer()
    const boat = server.group('boat', 'alice')
    return connected(server, ['alice'], async (alice) => {
      server.refuse('too_large')
      await assert.rejects(soon((await alice.send({ conv: boat, text: 'long' })).wait()), (e) => isPetrelError(e) && e.code === 'too_large')
      server.refuse('overloaded', { settled: false, times: 2 })
      assert.equal((await soon((await alice.send({ conv: boat, text: 'again' })).wait())).seq, 1)
      assert.equal(server.got.filter((f) => f.send?.text === 'again').length, 3)
      assert.throws(() => server.write('bob', { conv: boat, text: 'x' }), /bob cannot write/)
    })
  })

  test('a client whose connection is cut sends once it has another one, and gets what it has missed', () => {
    const server = new TestServer()
    const boat = server.group('boat', 'alice', 'bob')
    return connected(server, ['alice'], async (alice) => {
      server.cut()
      await until(alice, () => alice.status().state !== 'live')
      const sent = await alice.send({ conv: boat, text: 'from far away' })
      server.write('bob', { conv: boat, text: 'meanwhile' })
      server.heal()
      assert.equal((await soon(sent.wait())).seq, 2)
      await until(alice, () => texts(alice, boat) === '1 bob: meanwhile, 2 alice: from far away')
    })
  })

  test('a send whose ack was lost is stored once, and every device of the user shows it; who comes later sees what was edited', () => {
    const server = new TestServer()
    const boat = server.group('boat', 'alice', 'bob')
    let loses = true
    const lossy: Transport = {
      speaks: server.speaks,
      connect: (address, on) => {
        const c = server.connect(address, on)
        return {
          close: () => c.close(),
          send: (data) => {
            c.send(data)
            if (!loses || !String(data).includes('"send"')) return
            loses = false
            server.cut()
            server.heal()
          },
        }
      },
    }
    return connected(server, ['alice'], (tablet) => connected(lossy, ['alice'], async (phone) => {
      const { seq } = await soon((await phone.send({ conv: boat, text: 'once' })).wait())
      await until(tablet, () => texts(tablet, boat) === '1 alice: once')
      await soon((await phone.editText(boat, seq, 'and for all')).wait())
      await connected(server, ['bob'], async (bob) => assert.match(texts(bob, boat), /^1 alice: and for all, 2/))
    }))
  })

  test('a repeated send is stored once', async () => {
    const server = new TestServer()
    const conv = server.group('boat', 'alice')
    const heard: string[] = []
    const link = server.connect('', { opened: () => {}, frame: (f) => heard.push(String((f as ServerFrameJson).ack?.seq)), closed: () => {} })
    await idle()
    for (const frame of [{ hello: { token: 'alice' } }, ...['a', 'b', 'a'].map((clientMsgId) => ({ send: { conv, clientMsgId, text: 'x' } }))]) link.send(JSON.stringify(frame))
    await idle()
    assert.deepEqual(heard, ['undefined', '1', '2', '1'])
  })

  test('history is read in pages, and methods are those of the test', () => {
    const server = new TestServer()
    const boat = server.group('boat', 'alice', 'bob')
    for (let n = 1; n <= 130; n++) server.write('bob', { conv: boat, text: `line ${n}` })
    server.methods['petrel.v1.AccountService/GetAccount'] = (_, user) => ({ user })
    return connected(server, ['alice'], async (alice) => {
      const place = new HistoryWindow(alice, boat)
      const end = place.subscribe(() => {})
      while (!place.view().isOldest) await soon(place.older())
      assert.deepEqual(place.view().messages.map((m) => m.seq), Array.from({ length: 130 }, (_, i) => i + 1))
      end()
      assert.equal((await alice.call('petrel.v1.AccountService/GetAccount', {})).user, 'alice')
      await assert.rejects(alice.call('petrel.v1.AccountService/ListDevices', {}), (e) => isPetrelError(e) && e.code === 'no_method')
    })
  })
})
