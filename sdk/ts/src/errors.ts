import { failure, type Failure, type Range, refusal } from './core/index.js'
import type { Code } from './wire/codes_gen.js'

const brand = Symbol.for('petrel.error')

/** The error of a failed action. Branch on `code`, or on `kind` if there is no code. The texts are for people. */
export class PetrelError extends Error {
  readonly [brand] = true
  override readonly name = 'PetrelError'
  /**
   * refused: by the server, or by this SDK with a code of the same catalogue. silent: the server does not
   * answer. store: the store of the client failed. unknowable: nobody can tell any more whether the message is
   * stored; show it as neither sent nor failed. link: anything else, mostly of the network; the server may have
   * carried the request out.
   */
  declare readonly kind: Failure['kind']
  /** '' unless refused; a newer server may send codes that this SDK does not know. */
  declare readonly code: Code | '' | (string & {})
  declare readonly hint: string
  /** About a send: it is not stored and never will be. */
  declare readonly settled: boolean
  /** The same request may succeed later. */
  declare readonly retryable: boolean
  /** How long to wait before a retry, in ms; 0: as after a lost connection. */
  declare readonly retryAfterMs: number
  /** The id of the request in the log of the server. */
  declare readonly requestId: string
  /** The head of the conversation, if the code is behind or after_ahead; else 0. */
  declare readonly head: number
  /** The one of several named users who is meant, if the code is no_user or forbidden; else empty or undefined. Spec: P-8.8. */
  declare readonly user: string | undefined
  /** The range that the server cannot read, if a history request failed with `damaged`. Spec: P-9.5. */
  declare readonly damaged: Range | undefined

  /** The error as plain data, as in Outgoing.error. */
  readonly failure: Failure

  constructor(f: Failure, options?: ErrorOptions) {
    super([f.code, f.message + (f.hint && ` (${f.hint})`)].filter(Boolean).join(': '), options)
    const { message, ...fields } = f
    Object.assign(this, fields)
    this.failure = f
  }
}

/**
 * Whether e is a PetrelError of this or another copy of the package: an application that loads it both as an ES
 * module and as CommonJS has two such classes.
 */
export function isPetrelError(e: unknown): e is PetrelError {
  return typeof e === 'object' && e !== null && brand in e
}

/** Returns the failure of a thrown value. */
export function failureOf(e: unknown, kind: 'link' | 'store' = 'link'): Failure {
  return isPetrelError(e) ? e.failure : failure(kind, e instanceof Error ? e.message : String(e))
}

/** Makes an error of this SDK with a code of the catalogue. */
export function refused(code: Code, message: string, more: Partial<Failure> = {}): PetrelError {
  return new PetrelError(refusal(code, message, more))
}
