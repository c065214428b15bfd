import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import WebSocket from 'ws'
import { Client, type ClientOptions, isPetrelError, memoryStore, type Message, type WebSocketClass } from '../src/index.js'
import { contactsOf } from '../src/contacts.js'
import { startServer, type Server } from './server.js'
import { until } from './until.js'

const limit = { timeout: 300_000 } // only a fault meets it

let server: Server
before(async () => {
  server = await startServer(['alice', 'bob', 'carol'])
})
after(() => server.stop())

const webSocket = WebSocket as unknown as WebSocketClass

/** Runs f with clients of users, who are connected. */
async function clients(users: readonly string[], f: (...all: Client[]) => Promise<void>, more: Partial<ClientOptions> = {}): Promise<void> {
  const all = users.map((user) => new Client({ url: server.url, token: server.tokens[user] ?? '', webSocket, ...more }))
  const ends = all.map((c) => c.connect())
  try {
    await f(...all)
  } finally {
    ends.forEach((end) => end())
    await Promise.all(all.map((c) => c.close()))
  }
}

test('a message arrives, and both sides show it once', limit, () => clients(['alice', 'bob'], async (alice, bob) => {
  const sent = await alice.send({ user: 'bob', text: 'hello' })
  const { seq, conv } = await sent.wait()
  const got = await until(bob, () => bob.messages(bob.direct('alice')).find((m) => m.seq === seq))
  assert.equal(got.text, 'hello')
  assert.equal(bob.conversation(conv)?.unread, 1)
  await until(alice, () => alice.messages(conv).length > 0)
  assert.deepEqual(alice.pending(conv), [])
  assert.equal(alice.messages(conv).filter((m) => m.clientMsgId === sent.id).length, 1)
  bob.markRead(conv, seq)
  await until(alice, () => alice.messages(conv).some((m) => m.seq === seq && m.read === 1))
}))

test('users ask each other to become contacts, and each has a remark', limit, () => clients(['alice', 'bob'], async (alice, bob) => {
  const [ofAlice, ofBob] = [contactsOf(alice), contactsOf(bob)]
  await Promise.all([alice, bob].map((c) => until(c, () => c.status().synced)))
  const asked = await ofAlice.ask({ user: 'bob' }, 'it is  me')
  assert.equal(ofAlice.get('bob'), asked)
  const got = await until(bob, () => ofBob.get('alice'))
  assert.deepEqual(got, { user: 'alice', receivedMs: asked.sentMs, remark: '', greeting: 'it is  me' })
  const { sinceMs = 0 } = await ofBob.accept('alice')
  assert.ok(sinceMs > 0)
  await ofBob.setRemark('alice', 'Alice from  work')
  assert.deepEqual(ofBob.list(), [{ user: 'alice', sinceMs, remark: 'Alice from  work', greeting: '' }])
  await until(alice, () => ofAlice.get('bob')?.sinceMs === sinceMs)
  await ofBob.remove('alice')
  assert.deepEqual(ofBob.list(), [])
  await assert.rejects(ofBob.setRemark('alice', 'x'), (e) => isPetrelError(e) && e.code === 'no_contact')
  assert.deepEqual(ofAlice.list(), [{ user: 'bob', sinceMs, remark: '', greeting: '' }])
}))

test('calls make groups, react and pin', limit, () => clients(['alice', 'bob'], async (alice, bob) => {
  const conv = await alice.createGroup('boat', ['bob'])
  const { seq } = await (await alice.send({ conv, text: 'ahoy' })).wait()
  await until(bob, () => bob.messages(conv).some((m) => m.seq === seq))
  await bob.react(conv, seq, '👍')
  assert.deepEqual(bob.messages(conv).find((m) => m.seq === seq)?.reactions, [{ emoji: '👍', count: 1, mine: true }])
  await alice.pin(conv, seq)
  assert.deepEqual((await bob.pins(conv)).map((p) => [p.message.text, p.by]), [['ahoy', 'alice']])
  for (const letter of ['a', 'b']) await alice.pin(conv, (await (await alice.send({ conv, text: letter.repeat(30_000) })).wait()).seq)
  assert.deepEqual((await bob.pins(conv)).map((p) => p.message.text?.length), [30_000, 30_000, 4]) // two pages
  assert.deepEqual(await alice.members(conv), [{ user: 'alice', role: 'owner' }, { user: 'bob', role: 'member' }])
  assert.deepEqual(await alice.whoReacted(conv, seq), [{ user: 'bob', emojis: ['👍'] }])
  await alice.renameGroup(conv, 'ship')
  await until(bob, () => bob.conversation(conv)?.title === 'ship')
  await assert.rejects(bob.dissolveGroup(conv), (e) => isPetrelError(e) && e.code === 'forbidden' && !e.retryable)
  await alice.mute(conv, 5_000_000_000_000)
  await until(alice, () => alice.conversation(conv)?.personal.mutedUntilMs === 5_000_000_000_000)
}))

test('a bot answers each message once', limit, () => clients(['carol', 'bob'], async (carol, bob) => {
  const stop = new AbortController()
  const answered: Message[] = []
  const bot = (async () => {
    for await (const m of carol.incoming(stop.signal)) {
      answered.push(m)
      await carol.send({ conv: m.conv, id: `echo-${m.conv}-${m.seq}`, text: `You said: ${m.text}` })
    }
  })()
  await until(carol, () => carol.status().synced)
  for (const text of ['one', 'two', 'three']) await bob.send({ user: 'carol', text })
  await until(bob, () => bob.messages(bob.direct('carol')).filter((m) => m.from === 'carol').length === 3)
  stop.abort()
  await bot
  assert.deepEqual(answered.map((m) => m.text), ['one', 'two', 'three'])
}, { store: memoryStore() }))
