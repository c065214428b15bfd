import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import * as core from './index.js'

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** A random number from 0 to below n, always the same ones for a seed. */
function randomOf(seed: number): (n: number) => number {
  let x = seed
  return (n) => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0
    return Math.floor((x / 2 ** 32) * n)
  }
}

/** The frames of all vectors, as a server sends them. */
const frames = readdirSync('../conformance').filter((file) => /^0.*\.json$/.test(file)).flatMap((file) => {
  const vectors = JSON.parse(readFileSync(`../conformance/${file}`, 'utf8')) as { steps: { in: { frame?: Json; live?: { sync?: Json } } }[] }[]
  return vectors.flatMap((v) => v.steps.flatMap((s) => [s.in.frame, s.in.live?.sync && { sync: s.in.live.sync }])).filter((f) => f !== undefined)
})

/** The same JSON with some values that belong elsewhere, left out or twice. */
function spoil(v: Json, random: (n: number) => number): Json {
  if (Array.isArray(v)) return v.flatMap((one: Json) => (random(12) === 0 ? [] : random(12) === 0 ? [spoil(one, random), one] : [spoil(one, random)]))
  if (typeof v === 'object' && v !== null) return Object.fromEntries(Object.entries(v).filter(() => random(12) > 0).map(([key, one]) => [key, spoil(one, random)]))
  if (typeof v === 'string' && /^\d+$/.test(v) && random(4) === 0) return String([0, 1, 2, 7, 300, 2 ** 40, Number.MAX_SAFE_INTEGER][random(7)])
  return typeof v === 'boolean' && random(3) === 0 ? !v : v
}

test('a server that talks nonsense does not break the core', () => {
  const kinds = new Set<string>()
  for (let seed = 1; seed <= Number(process.env['PETREL_LIARS'] ?? 20); seed++) {
    const random = randomOf(seed)
    let ids = 0
    const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 20, newest: 5, manualDelivered: false }, () => random(1000) / 1000, () => `id${++ids}`, 1e12)
    core.open(c, [])
    core.start(c)
    for (let n = 0; n < 150; n++) {
      core.step(c)
      const out = core.takeOutputs(c)
      core.stored(c, core.prepare(c))
      if (out.ended) core.start(c)
      if (out.token) core.tokenCame(c, 'token')
      for (const d of out.dials) {
        core.opened(c, d.conn)
        core.frame(c, d.conn, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'inbox', historyId: `h${random(3)}`, capabilities: ['edit', 'cursor', 'focus', 'newest', 'signal', 'presence', 'mentions'] } }))
      }
      if (random(4) === 0) {
        const d = core.draft(c, { conv: ['g1', 'g2', 'd1'][random(3)] ?? '', text: `message ${n}` })
        if (!d.refused) core.kept(c, d.outgoing.id)
      }
      if (random(6) === 0) core.quote(c, 'g1', random(9))
      const spoiled = { ...spoil(frames[random(frames.length)] ?? {}, random) as object, id: String(random(2) === 0 ? 2 + random(20) : 0) }
      let f: core.ServerFrame
      try {
        f = core.decode(spoiled)
      } catch {
        continue // the client ends the connection
      }
      kinds.add(f.kind)
      core.frame(c, c.reach.conn, f)
      c.now += random(3000)
      for (const v of core.conversations(c)) {
        const seqs = core.messages(c, v.id).map((m) => m.seq)
        assert.ok(seqs.every((seq, i) => i === 0 || seq > (seqs[i - 1] ?? 0)), `seed ${seed}: ${v.id} shows ${seqs.join()}`)
      }
    }
  }
  assert.ok(['events', 'history', 'sync', 'ack', 'error', 'kick'].every((kind) => kinds.has(kind)), [...kinds].join())
})
