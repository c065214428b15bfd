// The links of one page: a class of WebSockets to which happens what a walk wants.
import WebSocket from 'ws'
import type { WebSocketClass } from '../src/index.js'

/** The faults of a frame or its link. */
export type Fault = 'push lost' | 'frame doubled' | 'frame overtaken' | 'answer lost' | 'cut before a write' | 'cut after a write'

type Handler = ((event: never) => void) | null

/**
 * A frame that a server may send on a connection that the client has given up: another login has taken
 * the place of this one. A client that takes it for the word of its newer connection ends.
 */
const replaced = '{"kick":{"code":"replaced"}}'

const holdMs = 5 // how long a frame waits for one that may overtake it

export class Links {
  readonly met = new Map<string, number>() // how often each fault has happened
  readonly #armed = new Map<Fault, number>()
  readonly #links = new Set<Link>() // that are open

  /** Has the next frames that a fault can happen to meet it. */
  arm(fault: Fault, times: number): void {
    this.#armed.set(fault, (this.#armed.get(fault) ?? 0) + times)
  }

  take(fault: Fault): boolean {
    const left = this.#armed.get(fault) ?? 0
    if (left === 0) return false
    this.#armed.set(fault, left - 1)
    this.note(fault)
    return true
  }

  note(what: string): void {
    this.met.set(what, (this.met.get(what) ?? 0) + 1)
  }

  add(link: Link): void {
    this.#links.add(link)
  }

  delete(link: Link): void {
    this.#links.delete(link)
  }

  get size(): number {
    return this.#links.size
  }

  /** Ends all connections. */
  cut(): void {
    for (const link of [...this.#links]) link.cut()
  }

  /** From now on frames in both directions wait. */
  freeze(): void {
    for (const link of this.#links) link.freeze()
  }

  /** It comes and goes, also on sockets that the page has given up meanwhile. */
  thaw(): void {
    for (const link of [...this.#links]) link.thaw()
  }

  heal(): void {
    this.#armed.clear()
    this.thaw()
  }

  /** The class for a client. */
  sockets(): WebSocketClass {
    const links = this
    return class extends Link {
      constructor(url: string) {
        super(url, links)
      }
    } as unknown as WebSocketClass
  }
}

class Link {
  binaryType = ''
  onopen: Handler = null
  onmessage: Handler = null
  onclose: Handler = null
  onerror: Handler = null
  readonly #links: Links
  readonly #socket: WebSocket
  #frozen = false
  #left = false // the client has closed it
  #late: Handler = null // that the client had: a socket that dies slowly still calls it
  #waiting: (() => void)[] = [] // while it is frozen
  #held: string[] = []
  #cuts = 0 // frames until the connection ends; 0: none

  constructor(url: string, links: Links) {
    this.#links = links
    this.#socket = new WebSocket(url)
    links.add(this)
    this.#socket.on('open', () => this.#do(() => (this.onopen as (() => void) | null)?.()))
    this.#socket.on('message', (data) => this.#do(() => this.#pass(String(data))))
    this.#socket.on('error', () => {})
    this.#socket.on('close', (code, reason) => this.#do(() => {
      links.delete(this)
      ;(this.onclose as ((e: object) => void) | null)?.({ code, reason: String(reason) })
    }))
  }

  get readyState(): number {
    return this.#socket.readyState
  }

  #do(f: () => void): void {
    if (this.#frozen) this.#waiting.push(f)
    else f()
  }

  send(data: string): void {
    this.#do(() => {
      if (this.readyState !== WebSocket.OPEN) return
      if (this.#links.take('cut before a write')) this.cut()
      else if (this.#links.take('cut after a write')) this.#socket.send(data, () => this.cut())
      else this.#socket.send(data)
    })
  }

  close(): void {
    this.#left = true
    if (!this.#frozen) this.#socket.terminate()
  }

  cut(): void {
    if (this.#frozen) return
    this.#socket.terminate()
  }

  freeze(): void {
    this.#frozen = true
    this.#late = this.onmessage
  }

  thaw(): void {
    this.#frozen = false
    for (const f of this.#waiting.splice(0)) f()
    if (this.#left) this.#socket.terminate()
  }

  /** Gives a frame of the server to the client, with the faults that are armed. */
  #pass(frame: string): void {
    if (this.#cuts > 0 && --this.#cuts === 0) {
      this.cut()
      return
    }
    const isPush = frame.startsWith('{"events"')
    const isAnswer = frame.startsWith('{"id"') && !/^.{0,30}"(error|welcome|ping)":/.test(frame)
    if (isPush && this.#links.take('push lost')) return
    if (isAnswer && this.#links.take('answer lost')) {
      this.#cuts = 3
      setTimeout(() => this.cut(), holdMs)
      return
    }
    if (isPush && this.#links.take('frame doubled')) this.#give(frame)
    if ((isPush || isAnswer) && this.#links.take('frame overtaken')) {
      this.#held.push(frame)
      setTimeout(() => this.#release(), holdMs)
      return
    }
    this.#give(frame)
    this.#release()
  }

  #release(): void {
    for (const frame of this.#held.splice(0)) this.#give(frame)
  }

  #give(data: string): void {
    const f = (this.#left ? this.#late : this.onmessage) as ((e: object) => void) | null
    if (this.#left) {
      this.#links.note('frame of a stale socket')
      f?.({ data: replaced })
    }
    f?.({ data })
  }
}
