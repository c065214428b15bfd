import { defined, type Kick, type Range, type WireError } from './frames.js'

/**
 * The reason of a failure, as plain data.
 *
 * - refused: by the server, or by this SDK with a code of the same catalogue. Branch on code.
 * - silent: the server does not answer.
 * - store: the store of the client failed.
 * - unknowable: nobody can tell any more whether the message is stored. Spec: P-4.8.
 * - link: anything else, mostly of the network; only the message says what.
 */
export interface Failure {
  readonly kind: 'refused' | 'silent' | 'store' | 'unknowable' | 'link'
  /** '' unless refused; a newer server may send codes that are not in the catalogue. */
  readonly code: string
  /**
   * For people, like hint. In a PetrelError it is failure.message; the message of the error also contains the
   * code and the hint.
   */
  readonly message: string
  readonly hint: string
  /** About a send: it is not stored and never will be. */
  readonly settled: boolean
  /** The same request may succeed later. */
  readonly retryable: boolean
  /** How long to wait before a retry, in ms; 0: as after a lost connection. */
  readonly retryAfterMs: number
  /** The id of the request in the log of the server. */
  readonly requestId: string
  /** The head of the conversation, if the code is behind or after_ahead; else 0. */
  readonly head: number
  /** The one of several named users who is meant, if the code is no_user or forbidden. Spec: P-8.8. */
  readonly user?: string
  /** The range that the server cannot read. Spec: P-9.5. */
  readonly damaged?: Range
}

const none = { code: '', message: '', hint: '', settled: false, retryable: false, retryAfterMs: 0, requestId: '', head: 0 } as const

/** Makes a failure that is not a refusal. */
export function failure(kind: Exclude<Failure['kind'], 'refused'>, message: string): Failure {
  return { ...none, kind, message }
}

/** Makes a refusal by this SDK. */
export function refusal(code: string, message: string, more: Partial<Failure> = {}): Failure {
  return { ...none, kind: 'refused', code, message, ...more }
}

/** Makes a refusal by this SDK of a message that can never be sent. */
export function invalid(message: string, code = 'invalid'): Failure {
  return refusal(code, message, { settled: true })
}

export const silent: Failure = failure('silent', 'the server is silent')
export const unknowable: Failure = failure('unknowable', 'nobody knows whether the message is stored')

export function fromWire({ damagedFrom, damagedTo, ...e }: WireError): Failure {
  return { kind: 'refused', ...e, ...defined({ damaged: damagedFrom > 0 ? { from: damagedFrom, to: damagedTo } : undefined }) }
}

/** Returns f with the failed action in front of its message. */
export function during(what: string, f: Failure): Failure {
  return { ...f, message: f.message === '' ? what : `${what}: ${f.message}` }
}

export function fromKick(k: Kick): Failure {
  return refusal(k.code, k.message, { retryable: k.reconnect, retryAfterMs: k.reconnectAfterMs })
}
