// Three nodes on one PostgreSQL, for the console, and people who write all the time.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Client } from '@petrel-im/sdk'
import { freeAddress, Server } from '../../sdk/ts/test/server.js'
import { limitMs } from './browser.js'
import type { ClusterNodeJson, ClusterStateJson } from '../console/wire/types_gen.js'

const nodes = 3
const databases = 2 // so that a partition can move from one to the other
const pollMs = 50

/** Waits until f gives something. */
export async function until<T>(what: string, f: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  for (const end = performance.now() + limitMs; ;) {
    const found = await f()
    if (found) return found
    assert.ok(performance.now() < end, `not within ${limitMs} ms: ${what}`)
    await pause(pollMs)
  }
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** The nodes are named node1, node2 and node3. */
export class Cluster {
  readonly nodes: readonly Server[]
  readonly #postgres: ChildProcess

  private constructor(servers: readonly Server[], postgres: ChildProcess) {
    this.nodes = servers
    this.#postgres = postgres
  }

  static async start(): Promise<Cluster> {
    const postgres = spawn('go', ['run', './test/postgres', String(databases)], { cwd: '..', stdio: ['pipe', 'pipe', 'inherit'] })
    const urls: string[] = []
    for await (const line of createInterface(postgres.stdout)) if (urls.push(`${line}&pool_max_conns=5`) === databases) break
    assert.equal(urls.length, databases, 'go run ./test/postgres has ended')
    const buses = await Promise.all(Array.from({ length: nodes }, freeAddress))
    const servers = await Promise.all(buses.map((bus, i) => Server.startNew({
      PETREL_STORE__POSTGRES: urls.join(','), PETREL_CLUSTER__NODE: `node${i + 1}`, PETREL_CLUSTER__ADDRESSES: '{url}', PETREL_CLUSTER__SECRET: 'of the nodes of a test',
      PETREL_CLUSTER__LISTEN: bus, PETREL_CLUSTER__JOIN: buses.filter((other) => other !== bus).join(','),
    })))
    const cluster = new Cluster(servers, postgres)
    const code = cluster.node(1).setupLink.split('#k=')[1]
    const { adminKey } = await cluster.node(1).admin('SetupService/Redeem', { code }) as { adminKey: string }
    for (const s of servers) s.key = adminKey
    await cluster.settled()
    return cluster
  }

  /** The node of a number from 1. */
  node(n: number): Server {
    const server = this.nodes[n - 1]
    assert.ok(server)
    return server
  }

  /** The nodes as another one sees them. */
  async seen(by: number): Promise<ClusterStateJson & { readonly of: (n: number) => ClusterNodeJson }> {
    const state = await this.node(by).admin('AdminService/GetCluster', {}) as ClusterStateJson
    return { ...state, of: (n) => state.nodes?.find((x) => x.node === `node${n}`) ?? {} }
  }

  /** Waits until every node sees all of them, and each partition is where it stays. */
  async settled(): Promise<void> {
    for (let n = 1; n <= nodes; n++) {
      await until('the cluster has settled', async () => {
        const c = await this.seen(n)
        const there = (c.nodes ?? []).filter((x) => x.alive && x.reachable && !x.draining && (x.owned ?? 0) > 0)
        return there.length === nodes && !c.misplaced && (c.unowned ?? []).length === 0
      })
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((s) => s.stop()))
    this.#postgres.stdin?.end()
    await once(this.#postgres, 'exit')
  }
}

/** Two users at each node, who write to each other all the time: each the next message when the last one is stored, and a tenth of a second later. */
export class Load {
  readonly #clients: readonly Client[]
  readonly #loops: readonly Promise<void>[]
  #over = false
  /** The sends that the SDK gave up. */
  readonly refused: string[] = []

  private constructor(clients: readonly (readonly [Client, string])[]) {
    this.#clients = clients.map(([client]) => client)
    this.#loops = clients.map(([client, peer]) => this.#write(client, peer))
  }

  static async start(cluster: Cluster): Promise<Load> {
    const users = Array.from({ length: 2 * nodes }, (_, i) => `load${i}`)
    await cluster.node(1).users(...users)
    return new Load(users.map((user, i) => [
      new Client({ url: cluster.node(Math.floor(i / 2) + 1).url, token: cluster.node(1).tokens[user] ?? '', keep: 20 }), users[i ^ 1] ?? '',
    ]))
  }

  async #write(client: Client, user: string): Promise<void> {
    client.connect()
    for (let n = 0; !this.#over; n++) {
      try {
        await (await client.send({ user, text: `message ${n}` })).wait()
      } catch (e) {
        if (!this.#over) this.refused.push(String(e))
      }
      await pause(100)
    }
  }

  async stop(): Promise<void> {
    this.#over = true
    await Promise.all(this.#clients.map((c) => c.close()))
    await Promise.all(this.#loops)
  }
}
