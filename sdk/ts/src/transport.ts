import { type ClientFrameJson, type Encoded, failure, type Failure, refusal } from './core/index.js'
import { refused } from './errors.js'
import { finalClose } from './wire/codes_gen.js'

/** The events of a connection. None follows `closed`, or a call of close(). */
export interface ConnectionEvents {
  opened(): void
  /** A frame of the server in the JSON mapping, not yet checked. */
  frame(json: unknown): void
  closed(why: Failure): void
}

/** One connection, from the attempt to open it. */
export interface Connection {
  send(data: string | Uint8Array): void
  close(): void
}

/** Decodes a frame of the server: text is JSON, bytes are protobuf. It throws on an invalid frame. */
export type Decode = (data: string | Uint8Array) => unknown

/** Makes connections. The default is WebSocket; tests, and the tabs of a browser, have others. */
export interface Transport {
  /** The schemes of addresses that it can connect to. */
  readonly speaks: readonly string[]
  connect(address: string, on: ConnectionEvents): Connection
}

/** The part of a WebSocket that the SDK uses. Browsers and the package `ws` have it. */
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

/** The schemes that a WebSocket can connect to. */
export const schemes: readonly string[] = ['ws', 'wss', 'http', 'https']
const path = '/v1/ws'
const isOpen = 1 // WebSocket.OPEN
const nothing = (): void => {}

/**
 * Makes the transport over WebSocket. On a platform without WebSocket, such as Node 20, the application passes
 * a class: `import WebSocket from 'ws'`.
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

/** Turns an address into the URL of a WebSocket: ws for http, and the default path if it has none. */
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
    socket.onerror = nothing // closing a socket before it is open causes an error event
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
  socket.onerror = nothing // onclose follows, and says more
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

/**
 * Makes the failure of a closed socket. If a kick came, the client has acted on it already; the close code
 * matters only if the kick was lost. Spec: P-1.6.
 */
function closed(address: string, code: number, reason: string): Failure {
  if (code >= 4000) return refusal(reason, 'the server closed the connection', { retryable: !finalClose(code) })
  return failure('link', `connection to ${address} ended with ${code}${reason && `: ${reason}`}`)
}

/** Wraps a transport: it takes frames in JSON, as tabs pass them on, and encodes them. */
export function encoded(t: Transport, encode: (frame: ClientFrameJson) => Encoded): Transport {
  return {
    speaks: t.speaks,
    connect(address, on) {
      const connection = t.connect(address, on)
      return { send: (json) => connection.send(encode(JSON.parse(json as string) as ClientFrameJson).data), close: () => connection.close() }
    },
  }
}
