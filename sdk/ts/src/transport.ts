import { type ClientFrameJson, type Encoded, failure, type Failure, refusal } from './core/index.js'
import { refused } from './errors.js'
import { finalClose } from './wire/codes_gen.js'

/** The events of a connection. There are none after `closed`, and after its close() was called. */
export interface ConnectionEvents {
  opened(): void
  /** A frame of the server in the JSON mapping, not yet checked. */
  frame(json: unknown): void
  closed(why: Failure): void
}

/** One connection, from the attempt to make it on. */
export interface Connection {
  send(data: string | Uint8Array): void
  close(): void
}

/** Decodes a frame of the server: text in JSON, bytes in protobuf. It throws if it cannot. */
export type Decode = (data: string | Uint8Array) => unknown

/** Makes connections. Tests, and the tabs of one browser, have others than WebSocket. */
export interface Transport {
  /** The schemes of addresses that it can connect to. */
  readonly speaks: readonly string[]
  connect(address: string, on: ConnectionEvents): Connection
}

/** The part of a WebSocket that the SDK uses. Browsers have it, the package `ws` too. */
export interface WebSocketLike {
  binaryType: string
  readonly readyState: number
  onopen: ((event: never) => void) | null
  onmessage: ((event: never) => void) | null
  onclose: ((event: never) => void) | null
  onerror: ((event: never) => void) | null
  send(data: string | Uint8Array<ArrayBuffer>): void
  close(code?: number): void
}

export type WebSocketClass = new (url: string) => WebSocketLike

/** The schemes of addresses of a WebSocket. */
export const schemes: readonly string[] = ['ws', 'wss', 'http', 'https']
const path = '/v1/ws'
const isOpen = 1 // WebSocket.OPEN
const nothing = (): void => {}

/**
 * The transport over WebSocket. Where the platform has none, as Node 20, the application
 * gives one: `import WebSocket from 'ws'`.
 */
export function webSocketTransport(given?: WebSocketClass, decode: Decode = fromJson): Transport {
  const Socket = given ?? (globalThis as { WebSocket?: WebSocketClass }).WebSocket
  if (!Socket) {
    throw refused('unsupported', 'this platform has no WebSocket', { hint: "give the option webSocket, as that of the package 'ws'", settled: true })
  }
  return { speaks: schemes, connect: (address, on) => connect(new Socket(socketUrl(address)), address, on, decode) }
}

function fromJson(data: string | Uint8Array): unknown {
  return JSON.parse(typeof data === 'string' ? data : new TextDecoder().decode(data))
}

/** The URL of a WebSocket: ws for http, and a path if there is none. */
export function socketUrl(address: string): string {
  const url = new URL(address.replace(/^http/, 'ws'))
  if (url.pathname === '/') url.pathname = path
  return url.href
}

function connect(socket: WebSocketLike, address: string, on: ConnectionEvents, decode: Decode): Connection {
  let over = false
  const end = (): void => {
    over = true
    socket.onopen = socket.onmessage = socket.onclose = null
    socket.onerror = nothing // a socket that is closed while it connects says so here
  }
  socket.binaryType = 'arraybuffer'
  socket.onopen = () => on.opened()
  socket.onmessage = ({ data }: { data: string | ArrayBuffer }) => {
    let frame: unknown
    try {
      frame = decode(typeof data === 'string' ? data : new Uint8Array(data))
    } catch (why) {
      end()
      socket.close()
      on.closed(failure('link', `decode a frame: ${String(why)}`))
      return
    }
    on.frame(frame)
  }
  socket.onerror = nothing // it says nothing that onclose does not say after it
  socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
    end()
    on.closed(closed(address, code, reason))
  }
  return {
    send(data) {
      if (!over && socket.readyState === isOpen) socket.send(data as string | Uint8Array<ArrayBuffer>)
    },
    close() {
      if (over) return
      end()
      socket.close()
    },
  }
}

/** The code of the close frame counts only if the kick with the same code was lost. Spec: P-1.6. */
function closed(address: string, code: number, reason: string): Failure {
  if (code >= 4000) return refusal(reason, 'the server closed the connection', { retryable: !finalClose(code) })
  return failure('link', `connection to ${address} ended with ${code}${reason && `: ${reason}`}`)
}

/** A transport that takes frames in JSON, as tabs pass them on, and encodes them. */
export function encoded(t: Transport, encode: (frame: ClientFrameJson) => Encoded): Transport {
  return {
    speaks: t.speaks,
    connect(address, on) {
      const connection = t.connect(address, on)
      return { send: (json) => connection.send(encode(JSON.parse(json as string) as ClientFrameJson).data), close: () => connection.close() }
    },
  }
}
