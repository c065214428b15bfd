// A client this project did not write, on npm's ws: each test names the clauses of proto/README.md it checks.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { Client, WebSocket, newId } from './client.js'

const URL = process.env.PETREL_URL
const TOKENS = JSON.parse(readFileSync(process.env.PETREL_TOKENS))
const limit = { timeout: 60_000 }

/** Runs f with sessions of the users and closes them after. */
async function sessions(users, f) {
  const clients = []
  try {
    for (const u of users) clients.push(await Client.login(URL, TOKENS[u]))
    await f(...clients)
  } finally {
    clients.forEach((c) => c.close())
  }
}

/** Opens a connection, logs in if user is given, runs f, and returns how the server ended it. */
async function ending(user, f) {
  const c = user ? await Client.login(URL, TOKENS[user]) : new Client(URL)
  await c.open
  f(c)
  return c.ended
}

// The tests count from the head of conversations that are there and listed by a sync (P-6.3).
before(() =>
  sessions(['alice'], async (alice) => {
    for (const peer of ['bob', 'carol']) {
      await alice.send({ user: peer }, 'first')
      while (!(await alice.known(peer)).conv) await alice.event((m) => m.conv === alice.welcome.inbox)
    }
  }))

const refused = (code, settled) => (e) => {
  assert.deepEqual([e.code, e.settled], [code, settled], e.message)
  return true
}

test('the welcome has what P-3.4 lists', limit, () =>
  sessions(['alice'], async ({ welcome: w }) => {
    assert.equal(w.version, 1)
    assert.equal(w.user, 'alice')
    assert.match(w.inbox, /^i[A-Za-z0-9_-]{20}$/)
    assert.ok(w.session && w.historyId && w.server)
    assert.ok(w.heartbeatMs > 0 && w.heartbeatMisses > 0 && w.window.sends > 0 && w.window.bytes > 0)
    assert.ok(w.limits.frameBytes > 0 && w.limits.bodyBytes > 0 && w.limits.historyMessages > 0)
    assert.ok(Math.abs(Number(w.serverTimeMs) - Date.now()) < 60_000)
  }))

test('messages go both ways (P-4.1, P-6.1)', limit, () =>
  sessions(['alice', 'bob'], async (alice, bob) => {
    const { head } = await alice.known('bob')
    await bob.sync()
    const ack = await alice.send({ user: 'bob' }, 'from node 海燕', { after: head })
    assert.equal(Number(ack.seq), head + 1)
    const m = await bob.event((m) => m.conv === ack.conv)
    assert.deepEqual([m.seq, m.from, m.text, m.timeMs], [ack.seq, 'alice', 'from node 海燕', ack.timeMs])
    const back = await bob.send({ conv: ack.conv }, 'hi', { after: m.seq })
    assert.deepEqual([(await alice.event()).seq, back.conv], [back.seq, undefined])
  }))

test('sends without waiting are stored in their order (P-4.3)', limit, () =>
  sessions(['alice', 'bob'], async (alice, bob) => {
    const { head } = await alice.known('bob')
    await bob.sync()
    const acks = await Promise.all(Array.from({ length: 20 }, (_, i) => alice.send({ user: 'bob' }, `n${i}`, { after: head })))
    assert.deepEqual(acks.map((a) => Number(a.seq)), Array.from({ length: 20 }, (_, i) => head + 1 + i))
    for (let i = 0; i < 20; i++) assert.equal((await bob.event()).text, `n${i}`)
  }))

test('a resend gets the same seq, another body a conflict (P-4.4)', limit, () =>
  sessions(['alice', 'alice'], async (alice, again) => {
    const { head } = await alice.known('bob')
    const k = newId()
    const first = await alice.send({ user: 'bob' }, 'once', { k, after: head })
    assert.equal((await again.send({ user: 'bob' }, 'once', { k, after: head })).seq, first.seq)
    await assert.rejects(again.send({ user: 'bob' }, 'twice', { k, after: head }), refused('conflict', true))
    const page = await alice.history(first.conv, { after: String(head) })
    assert.deepEqual(page.messages.map((m) => m.text), ['once'])
  }))

test('history is paged without a hole, up and down (P-5.2)', limit, () =>
  sessions(['alice'], async (alice) => {
    const { head } = await alice.known('carol')
    let conv
    for (let i = 0; i < 7; i++) ({ conv } = await alice.send({ user: 'carol' }, `p${i}`, { after: head + i }))
    const up = await alice.history(conv, { after: String(head), limit: 4 })
    assert.deepEqual([up.messages.map((m) => m.text), up.more], [['p0', 'p1', 'p2', 'p3'], true])
    const rest = await alice.history(conv, { after: up.messages.at(-1).seq, limit: 4 })
    assert.deepEqual([rest.messages.map((m) => m.text), rest.more], [['p4', 'p5', 'p6'], undefined])
    const down = await alice.history(conv, { before: '18446744073709551615', limit: 2 })
    assert.deepEqual([down.messages.map((m) => m.text), down.more], [['p5', 'p6'], true])
  }))

test('what came while away is found by sync and history (P-6.2)', limit, async () => {
  const bob = await Client.login(URL, TOKENS.bob)
  const { token } = await bob.sync()
  bob.close()
  await bob.ended
  await sessions(['alice'], async (alice) => {
    const { head } = await alice.known('bob')
    for (let i = 0; i < 5; i++) await alice.send({ user: 'bob' }, `away ${i}`, { after: head + i })
    await sessions(['bob'], async (bob) => {
      const state = [...(await bob.sync(token)).convs.values()].find((c) => c.peer === 'alice')
      assert.equal(Number(state.head), head + 5)
      const page = await bob.history(state.conv, { after: String(head) })
      assert.deepEqual(page.messages.map((m) => m.text), [0, 1, 2, 3, 4].map((i) => `away ${i}`))
      const live = await alice.send({ user: 'bob' }, 'live', { after: head + 5 })
      assert.equal((await bob.event((m) => m.conv === state.conv)).seq, live.seq)
    })
  })
})

test('ping is answered with its id (P-7.3), what was not listed with unsupported (P-2.6)', limit, () =>
  sessions(['alice'], async (alice) => {
    assert.deepEqual(await alice.call({ ping: {} }, '4711'), { id: '4711', pong: {} })
    await assert.rejects(alice.call({ focus: { all: true } }), refused('unsupported', true)) // this client lists no capability
    await assert.rejects(alice.send({ user: 'nobody-here' }, 'x', { after: 0 }), refused('no_user', true))
    await assert.rejects(alice.send({ user: 'bob' }, 'x', { after: 1 << 30 }), refused('after_ahead', false))
  }))

const helloOf = (more) => JSON.stringify({ id: '1', hello: { versionMin: 1, versionMax: 1, token: TOKENS.alice, ...more } })
const ends = [
  ['unknown codec (P-1.3)', null, (c) => c.ws.send('HELO petrel'), 'kick', 'unknown_codec', 4415],
  ['frame before the hello (P-3.1)', null, (c) => c.ws.send('{"id":"1","ping":{}}'), 'kick', 'hello_expected', 4400],
  ['version out of range (P-3.2)', null, (c) => c.ws.send(helloOf({ versionMin: 90, versionMax: 99 })), 'error', 'version_unsupported', 4406],
  ['bad token (P-3.3)', null, (c) => c.ws.send(helloOf({ token: 'pt_default.alice.wrong' })), 'error', 'unauthenticated', 4401],
  ['second hello (P-3.1)', 'alice', (c) => c.ws.send(helloOf({})), 'kick', 'hello_expected', 4400],
  ['malformed frame (P-2.3)', 'alice', (c) => c.ws.send('{"id":"2","send":{'), 'kick', 'bad_frame', 4400],
  ['frame of the other codec (P-1.3)', 'alice', (c) => c.ws.send(Buffer.from('08024200', 'hex')), 'kick', 'bad_frame', 4400],
  ['invalid UTF-8 (P-2.4)', 'alice', (c) => c.ws.send(Buffer.from('{"id":"2","send":{"user":"bob","text":"\xff"}}', 'latin1'), { binary: false }), 'kick', 'bad_utf8', 1007],
  ['frame over the limit (P-2.5)', 'alice', (c) => c.ws.send('{"id":"2","ping":{}}'.padEnd(c.welcome.limits.frameBytes + 1)), 'kick', 'frame_too_large', 1009],
  ['unmasked frame (P-1.5)', 'alice', (c) => c.ws.send('{"id":"2","ping":{}}', { mask: false }), 'kick', 'unmasked', 1002],
]
for (const [name, user, act, body, code, close] of ends) {
  test(`${name} ends with ${code} and close ${close}`, limit, async () => {
    const end = await ending(user, act)
    assert.equal(end.frame?.[body]?.code, code, JSON.stringify(end))
    assert.deepEqual([end.close, end.reason], [close, code])
  })
}

test('a token in the URL is refused with HTTP 400 (P-3.3)', limit, async () => {
  const { status, body } = await new Promise((resolve, reject) => {
    const ws = new WebSocket(`${URL}?token=${TOKENS.alice}`)
    ws.once('open', () => reject(new Error('the connection was accepted')))
    ws.once('unexpected-response', async (_, response) => {
      const { socket } = response
      let text = ''
      for await (const chunk of response) text += chunk
      socket.destroy() // the server keeps the connection for a next request
      resolve({ status: response.statusCode, body: JSON.parse(text) })
    })
  })
  assert.deepEqual([status, body.code], [400, 'token_in_url'])
})
