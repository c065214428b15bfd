// A small Petrel client on npm's ws, written from proto/README.md alone. It speaks JSON.
import { createRequire } from 'node:module'
import { randomBytes } from 'node:crypto'
import path from 'node:path'

// The modules are installed outside the source tree.
const require = createRequire(path.resolve(process.env.PETREL_NODE_MODULES ?? 'node_modules', '..', 'package.json'))
export const { WebSocket } = require('ws')

export const newId = () => randomBytes(16).toString('hex')

/** What an error frame says; branch on code. */
export class Refused extends Error {
  constructor(error) {
    super(`${error.code}: ${error.message}`)
    this.code = error.code
    this.settled = error.settled ?? false
    this.error = error
  }
}

export class Client {
  /** Resolves with {frame, close, reason} when the connection has ended: what the server said before, and the close frame. */
  ended
  /** Entries that were pushed and not yet taken by event(). */
  events = []
  #next = 0
  #waiting = new Map() // id of a request → its promise's functions
  #watchers = []

  constructor(url) {
    this.ws = new WebSocket(url)
    this.open = new Promise((resolve, reject) => {
      this.ws.once('open', resolve)
      this.ws.once('error', reject)
    })
    this.open.catch(() => {})
    this.ws.on('message', (data, isBinary) => this.#read(JSON.parse(data), isBinary))
    this.ended = new Promise((resolve) => {
      this.ws.once('close', (close, reason) => {
        const end = { frame: this.last, close, reason: reason.toString() }
        for (const w of this.#waiting.values()) w.reject(new Error(`connection ended: ${JSON.stringify(end)}`))
        resolve(end)
      })
    })
  }

  static async login(url, token, more = {}) {
    const c = new Client(url)
    await c.open
    const hello = { versionMin: 1, versionMax: 1, token, device: 'node-1', client: 'foreign-node/1', ...more }
    c.welcome = (await c.call({ hello })).welcome
    return c
  }

  /** Sends one request; resolves with the answer's frame, rejects with Refused. */
  call(body, id = String(++this.#next)) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.ws.send(JSON.stringify({ id, ...body }))
    })
  }

  #read(frame, isBinary) {
    if (isBinary) throw new Error('a JSON session got a binary message')
    if (frame.kick || frame.error) this.last = frame
    if (frame.ping) this.ws.send('{"pong":{}}')
    if (frame.events) {
      this.events.push(...(frame.events.messages ?? []))
      this.#watchers = this.#watchers.filter((w) => !w())
    }
    const w = this.#waiting.get(frame.id)
    if (!w) return
    this.#waiting.delete(frame.id)
    frame.error ? w.reject(new Refused(frame.error)) : w.resolve(frame)
  }

  /** Resolves with the next pushed entry that matches, and forgets those before it. */
  event(match = () => true) {
    return new Promise((resolve) => {
      const look = () => {
        const i = this.events.findIndex(match)
        if (i < 0) return false
        resolve(this.events.splice(0, i + 1).at(-1))
        return true
      }
      if (!look()) this.#watchers.push(look)
    })
  }

  /** All conversations by id, and the last token. */
  async sync(token) {
    const convs = new Map()
    for (;;) {
      const page = (await this.call({ sync: token ? { token } : {} })).sync
      for (const c of page.convs ?? []) convs.set(c.conv, c)
      token = page.token ?? token
      if (!page.more) return { convs, token }
    }
  }

  /** The direct conversation with peer: {conv, head}; head 0 when there is none. */
  async known(peer) {
    for (const c of (await this.sync()).convs.values()) {
      if (c.peer === peer) return { conv: c.conv, head: Number(c.head) }
    }
    return { conv: '', head: 0 }
  }

  async send(target, text, { k = newId(), after } = {}) {
    const send = { ...target, clientMsgId: k, text }
    if (after !== undefined) send.after = String(after)
    return (await this.call({ send })).ack
  }

  async history(conv, range = {}) {
    return (await this.call({ history: { conv, ...range } })).history
  }

  close() {
    this.ws.close()
  }
}
