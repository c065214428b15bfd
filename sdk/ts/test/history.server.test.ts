import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import WebSocket from 'ws'
import { HistoryWindow } from '../src/history.js'
import { Client, type WebSocketClass } from '../src/index.js'
import { startServer, type Server } from './server.js'
import { until } from './until.js'

const limit = { timeout: 300_000 } // only a fault meets it
const written = 1500 // messages, on top of the entry that made the group
const keep = 100
const webSocket = WebSocket as unknown as WebSocketClass

let server: Server
let conv: string
before(async () => {
  server = await startServer(['alice', 'bob'], [], { PETREL_LIMITS__SENDS_PER_S: '-1', PETREL_LIMITS__SEND_BURST: '-1' })
  conv = (await server.admin('AdminService/CreateGroup', { title: 'long', members: [{ user: 'alice', role: 'ROLE_OWNER' }, { user: 'bob' }] }) as { conv: string }).conv
  let next = 0
  await Promise.all(Array.from({ length: 32 }, async () => {
    while (next < written) await write(`text ${next++}`)
  }))
})
after(() => server.stop())

async function write(text: string, more: object = {}, from = 'bob'): Promise<number> {
  const { seq } = await server.admin('AdminService/SendAs', { from, send: { clientMsgId: crypto.randomUUID(), conv, ...(text ? { text } : {}), ...more } }) as { seq: string }
  return Number(seq)
}

/** Runs f with a client that is connected, and a window of it that somebody looks at. */
async function reading(f: (client: Client, window: HistoryWindow) => Promise<void>): Promise<void> {
  const client = new Client({ url: server.url, token: server.tokens['alice'] ?? '', webSocket, keep })
  const end = client.connect()
  const window = new HistoryWindow(client, conv)
  try {
    await until(client, () => client.messages(conv).length > 0)
    const unsubscribe = window.subscribe(() => {})
    await f(client, window)
    unsubscribe()
  } finally {
    end()
    await client.close()
  }
}

const seqs = (window: HistoryWindow): number[] => window.view().messages.map((m) => m.seq)

function assertWhole(window: HistoryWindow): void {
  const all = seqs(window)
  assert.deepEqual(all, all.map((_, i) => (all[0] ?? 0) + i), 'there is a hole, or a doubled entry')
}

test('a window goes from the newest entry to the first one and back, without a hole, and within its bound', limit, () => reading(async (client, window) => {
  const seen = new Set<number>()
  const look = (): void => {
    assertWhole(window)
    const all = seqs(window)
    assert.ok(all.length <= 600 + 2 * keep, `${all.length} entries are held`)
    for (const seq of all) seen.add(seq)
  }
  look()
  for (let page = 1; await window.older(); page++) {
    look()
    if (page % 5 === 0) await write('meanwhile') // which the client has, and the window only at its end
  }
  assert.equal(window.view().isOldest, true)
  assert.equal(window.view().isNewest, false)
  assert.ok(seen.size >= written)
  assert.ok(client.messages(conv).length <= 2 * keep, 'what is read far back does not stay with what is kept')
  const begun = seqs(window)[0]
  assert.equal(begun, 1)
  while (await window.newer()) look()
  assert.equal(window.view().isNewest, true)
  const seq = await write('the newest')
  await until(client, () => seqs(window).at(-1) === seq)
  look()
}))

test('a jump reads what is around its target, and nothing of what is between', limit, () => reading(async (client, window) => {
  assert.equal(await window.around(300), true)
  assertWhole(window)
  const all = seqs(window)
  assert.ok(all.includes(300) && all.length <= 101, JSON.stringify(all.length))
  assert.deepEqual([window.view().isOldest, window.view().isNewest], [false, false])
  const same = window.view()
  assert.equal(await window.around(301), true)
  assert.equal(window.view(), same) // it was there
  assert.equal(await window.around(9_999_999), false)
  const third = await window.at(0)
  assert.equal(third, 1)
  assert.equal(window.view().isOldest, true)
  const { timeMs } = (await client.history({ conv, after: 999, limit: 1 })).messages[0] ?? { timeMs: 0 }
  const found = await window.at(timeMs) ?? 0
  assert.ok((window.view().messages.find((m) => m.seq === found)?.timeMs ?? 0) >= timeMs && found <= 1000)
  assert.equal((await window.at(Date.now() + 1e9) ?? 0) >= written, true)
  assert.equal(window.view().isNewest, true) // a page that reaches to the end goes on with what is kept
  assertWhole(window)
  await window.around(5)
  window.toNewest()
  assert.deepEqual(window.view().messages, client.messages(conv))
}))

test('what becomes of a message far back shows there', limit, () => reading(async (client, window) => {
  const bob = new Client({ url: server.url, token: server.tokens['bob'] ?? '', webSocket, keep })
  const end = bob.connect()
  try {
    await window.around(50)
    const at = (seq: number) => window.view().messages.find((m) => m.seq === seq)
    const other = window.view().messages.find((m) => m.seq === 60)
    await write('', { edit: { target: '50', text: 'edited' } })
    await until(client, () => at(50)?.text === 'edited')
    await write('', { recall: { target: '51' } })
    await until(client, () => (at(51)?.recalledBy ?? 0) > 0)
    assert.equal(at(51)?.text, undefined)
    await bob.react(conv, 52, '👍')
    await until(client, () => at(52)?.reactions[0]?.count === 1)
    await client.react(conv, 52, '👍')
    await until(client, () => at(52)?.reactions[0]?.mine === true)
    await client.pin(conv, 53)
    await until(client, () => at(53)?.pinned === true)
    assert.equal(at(60), other) // an unchanged message is the same object
    await window.older()
    assert.equal(at(52)?.reactions[0]?.count, 2) // also after another page
    window.toNewest()
    await window.around(50)
    assert.deepEqual([at(50)?.text, at(52)?.reactions[0]?.count, at(53)?.pinned], ['edited', 2, true]) // and when it is read again
    const answer = await write('answer', { rel: { replyTo: '50' } })
    await until(client, () => client.messages(conv).some((m) => m.seq === answer))
    const quoted = client.quote(conv, 50)
    assert.equal(typeof quoted === 'object' && quoted.text, 'edited')
  } finally {
    end()
    await bob.close()
  }
}))

test('a page that was read before an edit shows the edit all the same', limit, () => reading(async (client, window) => {
  const read = client.history.bind(client)
  client.history = async (...q) => {
    const page = await read(...q)
    const edit = await write('', { edit: { target: '700', text: 'newer than the page' } })
    await until(client, () => client.messages(conv).some((m) => m.seq === edit))
    return page
  }
  await window.around(700)
  assert.equal(window.view().messages.find((m) => m.seq === 700)?.text, 'newer than the page')
}))

test('what the client drops while it is read stays in the window', limit, () => reading(async (client, window) => {
  while (client.messages(conv).length < keep) await window.older()
  const first = seqs(window)[0] ?? 0
  for (let i = 0; i < 3 * keep; i += 20) {
    const seq = (await Promise.all(Array.from({ length: 20 }, (_, k) => write(`more ${i + k}`)))).reduce((a, b) => Math.max(a, b))
    await until(client, () => seqs(window).at(-1) === seq)
    assertWhole(window)
  }
  assert.ok((client.messages(conv)[0]?.seq ?? 0) > first, 'the client has dropped some')
  assert.equal(seqs(window)[0], first)
}))
