import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import WebSocket from 'ws'
import { Client, type Message, type WebSocketClass } from '../src/index.js'
import { Profile } from './profile.js'
import { type Server, startServer } from './server.js'
import { until } from './until.js'

const seeds = Number(process.env['PETREL_TS_SEEDS'] ?? 3)
const steps = Number(process.env['PETREL_TS_STEPS'] ?? 80)

/** Numbers from 0 to below n, the same for the same seed. */
function numbers(seed: number): (n: number) => number {
  let x = seed * 2654435761 >>> 0 || 1
  return (n) => {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    return (x >>> 0) % n
  }
}

describe('walks', { timeout: 60_000 + seeds * steps * 500 }, () => {
  let server: Server
  before(async () => {
    server = await startServer(Array.from({ length: seeds }, (_, i) => [`alice${i}`, `bob${i}`]).flat())
  })
  after(() => server.stop())

  for (let seed = 0; seed < seeds; seed++) {
    test(`what tabs send and get is the log of the server (seed ${seed})`, async () => {
      const [alice, peer] = [`alice${seed}`, `bob${seed}`]
      const next = numbers(seed + 1)
      const p = new Profile(server)
      const bob = new Client({ url: server.url, token: server.tokens[peer] ?? '', webSocket: WebSocket as unknown as WebSocketClass })
      const end = bob.connect()
      const { conv } = await (await bob.send({ user: alice, text: 'begin' })).wait()
      const names = ['a', 'b', 'c']
      let opened = 0
      const tabs = new Map(names.map((name) => [name, `${name}${opened++}`]))
      for (const tab of tabs.values()) await until(p.open(tab, alice), () => p.tabs.get(tab)?.status().synced)
      const sent = ['begin']
      for (let step = 0; step < steps; step++) {
        const name = names[next(3)] as string
        const tab = tabs.get(name) as string
        const text = `${name} ${step}`
        switch (next(10)) {
          case 0:
            for (const sockets of p.sockets.values()) for (const s of sockets) s.terminate()
            break
          case 1: // the page is loaded again
            p.browser.kill(tab)
            for (const s of p.sockets.get(tab) ?? []) s.terminate()
            tabs.set(name, `${name}${opened++}`)
            await p.open(tabs.get(name) as string, alice).open()
            break
          case 2:
            if ([...tabs.values()].filter((t) => p.browser.isFrozen(t)).length === 0) p.browser.freeze(tab)
            break
          case 3:
            for (const t of tabs.values()) p.browser.thaw(t)
            break
          case 4:
            await bob.send({ conv, text })
            sent.push(text)
            break
          case 5:
            p.tabs.get(tab)?.markRead(conv, p.tabs.get(tab)?.conversation(conv)?.have ?? 0)
            break
          default:
            if (p.browser.isFrozen(tab)) break
            await p.tabs.get(tab)?.send({ conv, text })
            sent.push(text)
        }
        await new Promise((resolve) => setTimeout(resolve, next(20)))
      }
      for (const t of tabs.values()) p.browser.thaw(t)
      const log = (c: Client): readonly Message[] => c.messages(conv).filter((m) => m.text !== undefined)
      const complete = (c: Client): boolean => c.status().state === 'live' && log(c).length >= sent.length && c.pending(conv).length === 0
      const all = [bob, ...[...tabs.values()].map((t) => p.tabs.get(t) as Client)]
      for (const c of all) await until(c, () => complete(c))
      for (const c of all) {
        assert.deepEqual(log(c).map((m) => m.text).sort(), [...sent].sort())
        assert.deepEqual(log(c).map((m) => m.seq), log(bob).map((m) => m.seq))
      }
      while (await (all[1] as Client).unsent() > 0) { // the last tab that is gone may be noticed only now
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      end()
      await bob.close()
      await Promise.all([...tabs.values()].map((t) => p.tabs.get(t)?.close()))
    })
  }
})
