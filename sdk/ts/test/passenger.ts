// Clients that write to users, for tests in Go (test/passenger). They read what to do from the
// standard input and print what happens, in lines of JSON.
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import WebSocket from 'ws'
import { Client, type Clock, systemClock, type WebSocketClass } from '../src/index.js'

interface Begin {
  readonly name: string
  readonly url: string
  readonly token: string
  readonly to: readonly string[]
  readonly count: number // 0: until the end
  readonly everyMs: number
  readonly bytes: number
  readonly reads: boolean
}

interface Event {
  readonly name: string
  readonly at?: string // host:port
  readonly sent?: boolean
  readonly ackedMs?: number
  readonly failed?: string
  readonly ended?: boolean
  readonly timers?: number
}

const passengers = new Map<string, () => Promise<void>>() // they end one, by name

function tell(e: Event): void {
  process.stdout.write(`${JSON.stringify(e)}\n`)
}

function begin({ name, url, token, to, count, everyMs, bytes, reads }: Begin): void {
  let timers = 0
  const { now, after } = systemClock()
  const clock: Clock = {
    now,
    after: (ms, f) => after(ms, () => {
      timers++
      f()
    }),
  }
  const Noted = class extends WebSocket {
    constructor(address: string) {
      super(address)
      this.on('open', () => tell({ name, at: new URL(address).host }))
    }
  }
  const client = new Client({ url, token, device: name, webSocket: Noted as unknown as WebSocketClass, clock })
  const over = new AbortController()
  const fail = (why: unknown): void => {
    if (!over.signal.aborted) tell({ name, failed: String(why) })
  }
  const run = client.run(over.signal).catch(fail)
  const write = async (): Promise<void> => {
    for (let i = 0; !over.signal.aborted && (count === 0 || i < count); i++) {
      const begun = performance.now()
      const sent = await client.send({ user: to[i % to.length] ?? '', text: 'x'.repeat(bytes) })
      tell({ name, sent: true })
      sent.wait().then(() => tell({ name, ackedMs: performance.now() - begun }), fail)
      if (everyMs > 0) await sleep(everyMs)
    }
  }
  const read = async (): Promise<void> => {
    while (reads && !over.signal.aborted) {
      await sleep(everyMs)
      const conv = client.direct(to[0] ?? '')
      if (conv !== '') await client.history({ conv, limit: 10 }, { signal: over.signal })
    }
  }
  const done = Promise.all([write().catch(fail), read().catch(fail)])
  passengers.set(name, async () => {
    passengers.delete(name)
    over.abort()
    await Promise.all([run, done])
    await client.close()
    tell({ name, ended: true, timers })
  })
}

for await (const line of createInterface({ input: process.stdin })) {
  const c = JSON.parse(line) as { begin?: Begin; end?: string }
  if (c.begin) begin(c.begin)
  if (c.end) void passengers.get(c.end)?.()
}
await Promise.all([...passengers.values()].map((end) => end()))
