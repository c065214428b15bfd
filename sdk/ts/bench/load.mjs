// Load by clients of this SDK, as an application in Node has them: pairs of users write to each
// other over one connection each, and everybody has to show all of the other one, in order.
// It prints what a message costs the clients: bench/clients/run, which does the same with the Go SDK.
//
//   node bench/load.mjs URL MESSAGES < tokens    lines "user token", two users each make a pair
import { build } from 'esbuild'
import { readFileSync, rmSync } from 'node:fs'
import WebSocket from 'ws'

const out = 'dist/bench/sdk.mjs'
await build({ entryPoints: ['src/index.ts'], bundle: true, format: 'esm', target: 'es2022', platform: 'node', outfile: out })
const { Client } = await import(new URL(`../${out}`, import.meta.url).href)
rmSync(out)

const [url, messages] = [process.argv[2], Number(process.argv[3])]
const users = readFileSync(0, 'utf8').trim().split('\n').map((l) => l.split(' '))
const window = 16 // unanswered messages of each user
let wrong = 0

async function play([, token], [peer]) {
  const client = new Client({ url, token, webSocket: WebSocket })
  await client.while(async (signal) => {
    const receive = async () => {
      let next = 0
      for await (const m of client.incoming(signal)) {
        if (m.from !== peer) continue
        if (m.text !== `message ${next}`) wrong++
        if (++next === messages) return
      }
    }
    const send = async () => {
      const under = []
      for (let n = 0; n < messages; n++) {
        under.push((await client.send({ user: peer, text: `message ${n}` })).wait())
        if (under.length === window) await under.shift()
      }
      await Promise.all(under)
    }
    await Promise.all([receive(), send()])
  })
}

const began = performance.now()
const before = process.cpuUsage()
await Promise.all(users.map((u, i) => play(u, users[i ^ 1])))
const { user, system } = process.cpuUsage(before)
const [seconds, cpu, all] = [(performance.now() - began) / 1000, (user + system) / 1e6, users.length * messages]
console.log(`TypeScript SDK, Node ${process.version}: ${all} messages in ${seconds.toFixed(1)} s; ${(cpu * 1e6 / all).toFixed(0)} µs of the clients' CPU for each, sent and shown; ${wrong} out of order`)
process.exit(wrong > 0 ? 1 : 0)
