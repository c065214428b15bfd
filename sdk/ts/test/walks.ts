// Walks against a real server that is killed, and put back to an earlier state, while they go on.
import { execFileSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { program, startServer } from './server.js'
import { Walk } from './walker.js'

const together = 10 // walks that share a server

const unlimited = Object.fromEntries([
  'SENDS_PER_S', 'SEND_BURST', 'GROUPS_PER_H', 'MEMBERS_PER_MIN', 'CONNECTIONS_PER_USER', 'CONNECTIONS_PER_IP', 'NEW_CONNECTIONS_PER_IP_PER_S', 'UNAUTHENTICATED_PER_IP', 'ANONYMOUS_CALLS_PER_IP_PER_S',
].map((name) => [`PETREL_LIMITS__${name}`, '-1']))

/** The disturbances that long walks must have met. */
const disturbances = [
  'push lost', 'frame doubled', 'frame overtaken', 'answer lost', 'cut before a write', 'cut after a write', 'frame of a stale socket', 'cut', 'leader frozen', 'tab frozen', 'tab thawed', 'link frozen', 'restart',
  'leader reloaded', 'tab reloaded', 'crash', 'crash before an entry', 'disk', 'database', 'token expired', 'refresh whose answer is lost', 'logged out',
]

/** Walks with the seeds from first on, each of so many steps. It returns what is wrong: nothing. */
export async function walks(first: number, seeds: number, steps: number): Promise<readonly string[]> {
  const met = new Map<string, number>()
  const errors: string[] = []
  for (let from = first; from < first + seeds; from += together) {
    const all = Array.from({ length: Math.min(together, first + seeds - from) }, (_, i) => from + i)
    const began = performance.now()
    for (const w of await walkTogether(all, steps)) {
      if (w.error !== '') {
        errors.push(w.error)
        console.log(`# ${w.error}`)
      }
      for (const [what, n] of w.met) met.set(what, (met.get(what) ?? 0) + n)
    }
    const { userCPUTime, systemCPUTime } = process.resourceUsage()
    console.log(`# seeds ${from} to ${from + all.length - 1} of ${steps} steps: ${((performance.now() - began) / 1000).toFixed(1)} s; so far ${((userCPUTime + systemCPUTime) / 1e6).toFixed(1)} s of CPU in this process`)
  }
  console.log(`# met: ${JSON.stringify(Object.fromEntries(met))}`)
  const missed = disturbances.filter((what) => !met.has(what)).map((what) => `no walk met: ${what}`)
  if (seeds >= 10 && steps >= 10_000 && errors.length === 0) {
    errors.push(...missed)
    for (const m of missed) console.log(`# ${m}`)
  }
  return errors
}

async function walkTogether(seeds: readonly number[], steps: number): Promise<readonly Walk[]> {
  const server = await startServer(seeds.flatMap((seed) => [`alice${seed}`, `bob${seed}`]), [], { ...unlimited, PETREL_ACCOUNTS__REFRESHES_PER_MIN: '-1', PETREL_ACCOUNTS__ONE_PER_KIND: 'false' })
  try {
    const all = seeds.map((seed) => new Walk(server, seed))
    const each = (f: (w: Walk) => Promise<void>): Promise<unknown> => Promise.all(all.map((w) => w.error === '' ? f(w).catch((why: unknown) => w.fail(why instanceof Error ? why.stack ?? why.message : String(why))) : undefined))
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
    await Promise.all(all.map((w) => w.end()))
    return all
  } finally {
    await server.stop()
  }
}
