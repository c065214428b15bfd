// What the core costs: `node --expose-gc bench/core.mjs`. It receives messages in many
// conversations, as frames of JSON, and prints the CPU time of each and the memory at the end.
import { build } from 'esbuild'
import { rmSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const messages = Number(process.argv[2] ?? 100_000)
const conversations = 100
const together = 1 // messages of a frame

const out = 'dist/bench/core.mjs'
const options = { entryPoints: ['src/core/index.ts'], bundle: true, format: 'esm', target: 'es2022' }
await build({ ...options, outfile: out })
const [small] = (await build({ ...options, minify: true, write: false })).outputFiles
console.log(`core: ${(small.contents.length / 1000).toFixed(1)} kB minified, ${(gzipSync(small.contents, { level: 9 }).length / 1000).toFixed(1)} kB gzipped`)
const core = await import(new URL(`../${out}`, import.meta.url).href)
rmSync(out)

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

function frames() {
  const all = []
  for (let n = 0; n < messages; n += together) {
    const i = (n / together) % conversations
    const seq = (k) => Math.floor(n / conversations / together) * together + k + 1
    all.push(JSON.stringify({ events: { messages: Array.from({ length: together }, (_, k) => ({
      conv: conv(i), seq: String(seq(k)), from: `user-${n % 50}`, clientMsgId: `c${String(n + k).padStart(31, '0')}`, timeMs: String(1795262400000 + n), counted: String(seq(k)),
      text: `message ${n + k}, which says about as much as people say in one line of a chat`,
    })) } }))
  }
  return all
}

/** CPU time of this process, in ms: what others do on the machine does not count. */
const clock = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const perMessage = (ms) => `${(ms * 1000 / messages).toFixed(2)} µs`
const heap = () => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const all = frames()
receiveAll(live(true), all.slice(0, 20_000), () => undefined) // the compiler has seen it

function receiveAll(c, some, look) {
  const begin = clock()
  for (const f of some) {
    c.now = Date.now()
    look(c, receive(c, JSON.parse(f)))
  }
  return clock() - begin
}

let sum = 0
const begin = clock()
for (const f of all) sum += core.decode(JSON.parse(f)).events.messages.length
console.log(`${messages} messages in ${conversations} conversations, ${together} in a frame`)
console.log(`JSON and decoding alone: ${perMessage(clock() - begin)} a message (${sum})`)
console.log(`received, with rows for a store: ${perMessage(receiveAll(live(true), all, () => undefined))} a message`)
console.log(`received, with what a screen reads, the row of its conversation and all of the open one: ${perMessage(receiveAll(live(false), all, (c, change) => {
  for (const id of change.conversations) {
    sum += core.conversation(c, id).unread
    if (id === conv(0)) sum += core.messages(c, id).length
  }
}))} a message`)

const before = heap()
const c = live(true)
receiveAll(c, all, () => undefined)
const after = heap()
console.log(`memory: ${((after - before) / 2 ** 20).toFixed(1)} MiB, ${core.messages(c, conv(0)).length} entries of each conversation held, ${Math.round((after - before) / (conversations * core.messages(c, conv(0)).length))} B an entry`)
