import type { Clock } from './clock.js'
import type { ClientFrameJson, Encoded, Outgoing, Status as CoreStatus } from './core/index.js'
import type { Fetch } from './http.js'
import type { SharedStore, Store, Warning } from './store.js'
import type { TokenSource } from './token.js'
import type { Decode, Transport, WebSocketClass } from './transport.js'

/** The name and version of this package, which a client sends to the server. */
export const version = 'petrel-ts/0.1.0'

/** The encoding of frames; absent: JSON. The entry `protobuf` has another one. */
export interface Codec {
  readonly encode: (frame: ClientFrameJson) => Encoded
  readonly decode: Decode
}

/** The server, the user and the settings of the connection. */
export interface ClientOptions {
  /**
   * ws://, wss://, http:// or https://. The path /v1/ws is added if there is none. A cluster announces further
   * addresses; the client tries them when the connection is lost.
   */
  readonly url: string
  /** An access token, or a source of one for each connection. */
  readonly token: TokenSource | string
  /** The store; absent: the client remembers nothing after a restart. */
  readonly store?: Store | SharedStore
  /** The address of the HTTP API, if it is not at the host of url. */
  readonly api?: string
  /** The id of this installation, at most 64 bytes; absent: a random one, made once and kept in the store. */
  readonly device?: string
  /**
   * 'web', 'phone', 'desktop', …: used if the token belongs to no device. Otherwise the login has named the
   * device and its kind. Spec: P-3.1, P-11.4.
   */
  readonly deviceKind?: string
  /** Name and version of the application, for the operator's eyes. */
  readonly client?: string
  /** The WebSocket class, for platforms that have none: `import WebSocket from 'ws'`. */
  readonly webSocket?: WebSocketClass
  readonly codec?: Codec
  /** How many of the newest entries of a conversation are held, in memory and in the store; 500 by default. */
  readonly keep?: number
  /** How many entries of a conversation are loaded when the client first learns of it; 20 by default. */
  readonly newest?: number
  /** The application calls markDelivered. Otherwise the client marks all held entries as delivered. */
  readonly manualDelivered?: boolean
  /** Is called with log lines about problems that the client recovers from. */
  readonly log?: (line: string) => void
  readonly fetch?: Fetch
  readonly transport?: Transport
  readonly clock?: Clock
  /** Returns a random number from 0 to below 1. */
  readonly random?: () => number
}

/** The state of the connection. */
export interface Status extends CoreStatus {
  /** Warnings for the person about the store. */
  readonly warnings: readonly Warning[]
}

/** A message that the client has taken to be sent. */
export interface Sent {
  /** Client message id. */
  readonly id: string
  /**
   * Waits until the message is stored, and returns it with its seq. It rejects with a PetrelError if the
   * message was refused, or if nobody can tell whether it is stored (kind unknowable). If the signal is aborted
   * first, the message stays in the outbox.
   */
  wait(signal?: AbortSignal): Promise<Outgoing>
}
