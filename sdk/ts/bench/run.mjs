// The measured work of bench/core.mjs, in Node and in a page.
import * as core from '../src/core/index.ts'
import { browserStore, Client, memoryStore } from '../src/index.ts'

const conversations = 100
const conv = (i) => `conversation-${String(i).padStart(8, '0')}`

function live(stored) {
  let ids = 0
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'bench', stored, keep: 500, newest: 20, manualDelivered: false }, () => 0.5, () => `id${++ids}`, Date.now())
  core.open(c, [])
  core.start(c)
  core.tokenCame(c, 'token')
  core.opened(c, 1)
  receive(c, { id: '1', welcome: { user: 'alice', inbox: 'inbox', historyId: 'h', heartbeatMs: 30000, limits: { openRequests: 16, historyMessages: 200 }, capabilities: ['edit', 'focus', 'newest', 'rel'] } })
  const convs = Array.from({ length: conversations }, (_, i) => ({ conv: conv(i), kind: 'CONV_KIND_GROUP', title: `group ${i}`, head: '0', joined: '1', firstSeq: '1' }))
  receive(c, { id: '2', sync: { token: 'AQ==', convs } })
  return c
}

/** One turn of a client: the store is written at once, and takes nothing. */
function receive(c, json) {
  core.frame(c, 1, core.decode(json))
  core.step(c)
  core.takeOutputs(c)
  return core.stored(c, core.prepare(c))
}

function frame(n) {
  const seq = String(Math.floor(n / conversations) + 1)
  return JSON.stringify({ events: { messages: [{
    conv: conv(n % conversations), seq, from: `user-${n % 50}`, clientMsgId: `c${String(n).padStart(31, '0')}`, timeMs: String(1795262400000 + n), counted: seq,
    text: `message ${n}, which says about as much as people say in one line of a chat`,
  }] } })
}

/** A server that has all conversations, empty, and then sends what it is told to. */
function transport(live) {
  const answers = {
    hello: () => ({ welcome: { user: 'alice', inbox: 'inbox', historyId: 'h', heartbeatMs: 30000, limits: { openRequests: 16, historyMessages: 200 }, capabilities: ['edit', 'cursor', 'focus', 'newest', 'rel'] } }),
    sync: () => ({ sync: { token: 'AQ==', convs: Array.from({ length: conversations }, (_, i) => ({ conv: conv(i), kind: 'CONV_KIND_GROUP', title: `group ${i}`, head: '0', joined: '1', firstSeq: '1' })) } }),
    cursor: () => ({ cursor: {} }),
  }
  return {
    speaks: ['ws'],
    connect(_, on) {
      queueMicrotask(() => on.opened())
      live.on = on
      const send = (data) => {
        const { id, ...body } = JSON.parse(data)
        const answer = answers[Object.keys(body)[0]]
        if (answer) queueMicrotask(() => on.frame({ id, ...answer() }))
      }
      return { send, close: () => {} }
    },
  }
}

const task = () => new Promise((resolve) => setTimeout(resolve))

/**
 * The whole client, with its store, and a screen that has subscribed and reads the row of what
 * changed. Each frame has its turn; 50 of them come in one task.
 */
export async function runClient(messages, clock, heap, inBrowser) {
  const live = {}
  const client = new Client({ url: 'ws://a', token: 't', store: inBrowser ? browserStore('bench') : memoryStore(), transport: transport(live) })
  const end = client.connect()
  while (!client.status().synced) await task()
  let sum = 0
  client.subscribe((change) => {
    for (const id of change.conversations) sum += client.conversation(id)?.unread ?? 0
  })
  const before = heap()
  const begin = clock()
  for (let n = 0; n < messages; n++) {
    live.on.frame(JSON.parse(frame(n)))
    await undefined
    if (n % 50 === 49) await task()
  }
  const per = messages / conversations
  while (client.conversation(conv(conversations - 1)).have < per) await task()
  const took = clock() - begin
  while (client.messages(conv(0)).at(-1)?.seq !== per) await task()
  const held = client.messages(conv(0)).length
  const bytes = heap() - before
  end()
  await client.close()
  return [
    `the whole client, with ${inBrowser ? 'the database of the browser' : 'a store in memory'}: ${(took * 1000 / messages).toFixed(1)} µs a message`,
    `memory of the client: ${(bytes / 2 ** 20).toFixed(1)} MiB, ${held} entries of each conversation held${sum < 0 ? '!' : ''}`,
  ]
}

/** Returns lines. clock is in ms, and heap in bytes after a collection of garbage. */
export function run(messages, clock, heap) {
  const all = Array.from({ length: messages }, (_, n) => frame(n))
  const perMessage = (what) => {
    const begin = clock()
    what()
    return `${((clock() - begin) * 1000 / messages).toFixed(1)} µs a message`
  }
  let sum = 0 // so that nothing is left out
  const receiveAll = (c, look) => {
    for (const f of all) look(c, receive(c, JSON.parse(f)))
  }
  const nothing = () => undefined
  receiveAll(live(true), nothing) // the compiler has seen it
  const lines = [`${messages} messages in ${conversations} conversations, each in a frame of its own`]
  lines.push(`JSON and decoding alone: ${perMessage(() => all.forEach((f) => { sum += core.decode(JSON.parse(f)).events.messages.length }))}`)
  lines.push(`received, with rows for a store: ${perMessage(() => receiveAll(live(true), nothing))}`)
  lines.push(`received, with what a screen reads, the row of its conversation and all of the open one: ${perMessage(() => receiveAll(live(false), (c, change) => {
    for (const id of change.conversations) {
      sum += core.conversation(c, id).unread
      if (id === conv(0)) sum += core.messages(c, id).length
    }
  }))}`)
  const before = heap()
  const c = live(true)
  receiveAll(c, nothing)
  const bytes = heap() - before
  const held = core.messages(c, conv(0)).length
  lines.push(`memory: ${(bytes / 2 ** 20).toFixed(1)} MiB, ${held} entries of each conversation held, ${Math.round(bytes / (conversations * held))} B an entry${sum < 0 ? '!' : ''}`)
  return lines
}
