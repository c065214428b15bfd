import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { test } from 'node:test'
import { program, startServer } from './server.js'
import { Walk } from './walker.js'

const first = Number(process.env['PETREL_TS_SEED'] ?? 1)
const seeds = Number(process.env['PETREL_TS_SEEDS'] ?? 3)
const steps = Number(process.env['PETREL_TS_STEPS'] ?? 80)
const together = 10 // walks that share a server

const unlimited = Object.fromEntries([
  'SENDS_PER_S', 'SEND_BURST', 'GROUPS_PER_H', 'MEMBERS_PER_MIN', 'CONNECTIONS_PER_USER', 'CONNECTIONS_PER_IP', 'NEW_CONNECTIONS_PER_IP_PER_S', 'UNAUTHENTICATED_PER_IP', 'ANONYMOUS_CALLS_PER_IP_PER_S',
].map((name) => [`PETREL_LIMITS__${name}`, '-1']))

/** What the walks must have met. */
const disturbances = [
  'push lost', 'frame doubled', 'frame overtaken', 'answer lost', 'cut before a write', 'cut after a write', 'frame of a stale socket', 'cut', 'leader frozen', 'tab frozen', 'tab thawed', 'link frozen', 'restart',
  'leader reloaded', 'tab reloaded', 'crash', 'disk', 'database', 'token expired', 'refresh whose answer is lost', 'logged out',
]

test(`walks of ${steps} steps end equal to the log of the server`, { timeout: 120_000 + seeds * steps * 20 }, async () => {
  const met = new Map<string, number>()
  const errors: string[] = []
  for (let from = first; from < first + seeds; from += together) {
    const all = Array.from({ length: Math.min(together, first + seeds - from) }, (_, i) => from + i)
    const server = await startServer(all.flatMap((seed) => [`alice${seed}`, `bob${seed}`]), [], { ...unlimited, PETREL_ACCOUNTS__REFRESHES_PER_MIN: '-1', PETREL_ACCOUNTS__ONE_PER_KIND: 'false' })
    const began = performance.now()
    try {
      const walks = all.map((seed) => new Walk(server, seed))
      const each = (f: (w: Walk) => Promise<void>): Promise<unknown> => Promise.all(walks.map((w) => w.error === '' ? f(w).catch((why: unknown) => w.fail(why instanceof Error ? why.stack ?? why.message : String(why))) : undefined))
      const part = (n: number): Promise<unknown> => each((w) => w.walk(Math.floor(steps * n / 5), Math.floor(steps * (n + 1) / 5)))
      await each((w) => w.begin())
      await part(0)
      await server.restart()
      await part(1)
      const aside = `${server.folder}/aside`
      await server.restart((data) => cpSync(data, aside, { recursive: true }))
      await part(2)
      await server.restart()
      await part(3)
      await server.restart(async (data) => {
        await each((w) => w.goBack())
        rmSync(data, { recursive: true })
        cpSync(aside, data, { recursive: true })
        execFileSync(program, ['repair', '--new-history', '--data', data])
      })
      await each((w) => w.cameBack())
      await part(4)
      await each((w) => w.settle())
      await each((w) => w.audit())
      for (const w of walks) for (const [what, n] of w.met) met.set(what, (met.get(what) ?? 0) + n)
      await Promise.all(walks.map((w) => w.end()))
      const { userCPUTime, systemCPUTime } = process.resourceUsage()
      console.log(`# seeds ${from} to ${from + all.length - 1} of ${steps} steps: ${((performance.now() - began) / 1000).toFixed(1)} s; so far ${((userCPUTime + systemCPUTime) / 1e6).toFixed(1)} s of CPU in this process`)
      errors.push(...walks.map((w) => w.error).filter((why) => why !== ''))
    } finally {
      await server.stop()
    }
  }
  assert.deepEqual(errors, [])
  console.log(`# met: ${JSON.stringify(Object.fromEntries(met))}`)
  if (seeds >= 10 && steps >= 10_000) assert.deepEqual(disturbances.filter((what) => !met.has(what)), [], 'no walk met these')
})
