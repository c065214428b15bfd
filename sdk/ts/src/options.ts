import type { Clock } from './clock.js'
import type { ClientFrameJson, Encoded, Outgoing, Status as CoreStatus } from './core/index.js'
import type { Fetch } from './http.js'
import type { SharedStore, Store, Warning } from './store.js'
import type { TokenSource } from './token.js'
import type { Decode, Transport, WebSocketClass } from './transport.js'

/** The name and version that a client gives of this package. */
export const version = 'petrel-ts/0.1.0'

/** The encoding of frames. JSON needs none; the entry `protobuf` has another one. */
export interface Codec {
  readonly encode: (frame: ClientFrameJson) => Encoded
  readonly decode: Decode
}

/** The server, the user and the settings of the connection. */
export interface ClientOptions {
  /**
   * ws://, wss://, http:// or https://; the path /v1/ws is added when there is none. A
   * cluster tells of further addresses, which are tried when the connection is lost.
   */
  readonly url: string
  /** An access token, or a source of one for each connection. */
  readonly token: TokenSource | string
  /** The memory across restarts of the page or process; without one there is none. */
  readonly store?: Store | SharedStore
  /** The address of the HTTP API, if it is not at the host of url. */
  readonly api?: string
  /** The id of this installation, at most 64 bytes; without one that of the store, made at random once. */
  readonly device?: string
  /** 'web', 'phone', 'desktop', …, with a token that belongs to no device. Otherwise the login has named the device and its kind. Spec: P-3.1, P-11.4. */
  readonly deviceKind?: string
  /** Name and version of the application, for the operator's eyes. */
  readonly client?: string
  /** The class to connect with where the platform has no WebSocket: `import WebSocket from 'ws'`. */
  readonly webSocket?: WebSocketClass
  readonly codec?: Codec
  /** How many of the newest entries of a conversation are held, in memory and in the store; 500 by itself. */
  readonly keep?: number
  /** How many entries of a conversation are loaded when the client first meets it; 20 by itself. */
  readonly newest?: number
  /** The application calls markDelivered. Otherwise the client does, for all held entries. */
  readonly manualDelivered?: boolean
  /** Gets log lines about trouble that the client copes with. */
  readonly log?: (line: string) => void
  readonly fetch?: Fetch
  readonly transport?: Transport
  readonly clock?: Clock
  /** From 0 to below 1. */
  readonly random?: () => number
}

/** The state of the connection. */
export interface Status extends CoreStatus {
  /** What the person should know of the store. */
  readonly warnings: readonly Warning[]
}

/** A message that was sent. */
export interface Sent {
  /** Client message id. */
  readonly id: string
  /**
   * Waits until the fate of the message is known: its seq, or a PetrelError with which it was rejected, or of the kind unknowable. If the signal is
   * aborted first, the message stays in the outbox.
   */
  wait(signal?: AbortSignal): Promise<Outgoing>
}
