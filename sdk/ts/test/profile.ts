// The tabs of a browser, each with a client of a user.
import { IDBFactory } from 'fake-indexeddb'
import WebSocket from 'ws'
import { browserStore, Client, type WebSocketClass } from '../src/index.js'
import { FakeBrowser } from './fakes.js'
import type { Server } from './server.js'

/** It counts the sockets that the tabs have open. */
export class Profile {
  readonly browser = new FakeBrowser()
  readonly indexedDB = new IDBFactory() as unknown as globalThis.IDBFactory
  readonly sockets = new Map<string, Set<WebSocket>>()
  readonly tabs = new Map<string, Client>()
  readonly #server: Server

  constructor(server: Server) {
    this.#server = server
  }

  open(name: string, user = 'alice'): Client {
    const sockets = new Set<WebSocket>()
    this.sockets.set(name, sockets)
    const Counted = class extends WebSocket {
      constructor(url: string) {
        super(url)
        sockets.add(this)
        this.on('close', () => sockets.delete(this))
      }
    }
    const client = new Client({
      url: this.#server.url, token: this.#server.tokens[user] ?? '', webSocket: Counted as unknown as WebSocketClass, deviceKind: 'web', clock: this.browser.clock(name),
      store: browserStore(user, { indexedDB: this.indexedDB, browser: this.browser.tab(name) }),
    })
    this.tabs.set(name, client)
    client.connect()
    return client
  }

  get leader(): string | undefined {
    return [...this.sockets].find(([, s]) => s.size > 0)?.[0]
  }

  async close(): Promise<void> {
    await Promise.all([...this.tabs.values()].map((c) => c.close()))
  }
}
