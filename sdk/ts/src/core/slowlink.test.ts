import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as core from './index.js'

/** A link of 50 kbit/s each way, with a way of 50 ms, and a server that answers at once; as a browser sees it. */
class SlowLink {
  readonly c: core.Core
  readonly left: { readonly conn: number; readonly after: number }[] = [] // connections that the client has ended
  frozen = Infinity // from when on the server says nothing
  ahead: object | undefined // what the server says before each answer to a send
  private readonly events: { readonly at: number; readonly do: () => void }[] = []
  private upFree = 0
  private downFree = 0
  private begun = 0
  private conn = 0
  private ids = 0

  constructor() {
    this.c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: false, keep: 500, newest: 20, manualDelivered: true, wholeFrames: true }, () => 0, () => `id${++this.ids}`, 1e12)
    core.open(this.c, [])
    core.start(this.c)
  }

  /** Something happens after some ms from the beginning. */
  at(ms: number, what: () => void): void {
    this.events.push({ at: 1e12 + ms, do: what })
  }

  send(conv: string, bytes: number): void {
    const d = core.draft(this.c, { conv, text: 'x'.repeat(bytes) })
    if (!d.refused) core.kept(this.c, d.outgoing.id)
  }

  /** Lets the server say something, in its turn. */
  push(frame: object, conn = this.conn): void {
    const bytes = JSON.stringify(frame).length
    if (bytes > 8 << 10) this.push({ large: { bytes } }, conn)
    this.downFree = Math.max(this.downFree, this.c.now) + bytes / 6.25
    this.events.push({ at: this.downFree + 50, do: () => core.frame(this.c, conn, core.decode(frame)) })
  }

  run(ms: number): void {
    const end = this.c.now + ms
    for (;;) {
      core.step(this.c)
      const out = core.takeOutputs(this.c)
      core.stored(this.c, core.prepare(this.c))
      if (out.token) core.tokenCame(this.c, 'token')
      for (const conn of out.drops) this.left.push({ conn, after: this.c.now - this.begun })
      for (const { conn } of out.dials) {
        this.conn = conn
        this.begun = this.upFree = this.downFree = this.c.now // a socket of its own
        this.events.push({ at: this.c.now + 100, do: () => core.opened(this.c, conn) })
      }
      for (const f of out.frames) this.up(f.conn, JSON.parse(String(f.data)) as { id: string; send?: { conv: string } })
      if (out.token || out.dials.length > 0) continue
      this.events.sort((a, b) => a.at - b.at)
      const next = Math.min(this.events[0]?.at ?? Infinity, this.c.alarm)
      if (next > end) break
      this.c.now = next
      while (this.events[0] && this.events[0].at <= next) this.events.shift()?.do()
    }
    this.c.now = end
  }

  private up(conn: number, f: { readonly id: string; readonly send?: { readonly conv: string } }): void {
    this.upFree = Math.max(this.upFree, this.c.now) + JSON.stringify(f).length / 6.25
    const seq = String(++this.ids)
    const answers: readonly [string, object][] = [
      ['hello', { welcome: { user: 'alice', inbox: 'i', historyId: 'h', heartbeatMs: 30000, window: { sends: 64, bytes: 262144 }, limits: { frameBytes: 352256, historyMessages: 200, openRequests: 16 } } }],
      ['sync', { sync: { token: 'AQ==' } }], ['ping', { pong: {} }], ['send', { error: { code: 'conflict', settled: true, message: seq } }],
    ]
    const [, answer] = answers.find(([kind]) => kind in f) ?? ['', {}]
    this.events.push({ at: this.upFree + 50, do: () => {
      if (this.c.now >= this.frozen) return
      if (f.send && this.ahead) this.push(this.ahead, conn)
      this.push({ id: f.id, ...answer }, conn)
    } })
  }
}

describe('where whole frames are seen', () => {
  test('messages of 48 KiB over 50 kbit/s end no connection', () => {
    const s = new SlowLink()
    s.run(2000)
    for (const conv of ['a', 'b', 'c', 'd', 'a', 'b']) s.send(conv, 48 << 10)
    s.at(20_000, () => core.wakeUp(s.c))
    s.run(120_000)
    assert.deepEqual([s.left, core.pending(s.c, 'a').map((o) => o.state), core.status(s.c).state], [[], ['rejected', 'rejected'], 'live'])
  })

  test('a frozen server is left after 5 s while small messages are sent', () => {
    const s = new SlowLink()
    s.run(10_000)
    s.frozen = s.c.now
    const begin = s.c.now
    s.send('a', 100)
    s.run(5200)
    assert.equal(s.left.length, 1)
    assert.ok(s.c.now - begin <= 6000)
  })

  test('a large message of another user ends no connection', () => {
    const s = new SlowLink()
    s.run(10_000)
    s.ahead = { events: { messages: [{ conv: 'z', seq: '1', from: 'bob', clientMsgId: 'b', text: 'x'.repeat(48 << 10) }] } }
    s.send('a', 100)
    s.run(60_000)
    assert.deepEqual([s.left, core.pending(s.c, 'a').map((o) => o.state)], [[], ['rejected']])
  })
})
