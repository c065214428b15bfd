import { failure, type Failure, type Range, refusal } from './core/index.js'
import type { Code } from './wire/codes_gen.js'

const brand = Symbol.for('petrel.error')

/**
 * Why something did not happen. Branch on `code`, or on `kind` where there is no code; the
 * texts are for people.
 */
export class PetrelError extends Error {
  readonly [brand] = true
  override readonly name = 'PetrelError'
  /**
   * refused: by the server, or by this SDK with a code of the same catalogue. silent: the
   * server does not answer. store: the store of the client failed. unknowable: nobody can
   * tell any more whether the message is stored; show it as neither sent nor failed. link:
   * anything else, mostly of the network: what was asked for may have been done.
   */
  readonly kind: Failure['kind']
  /** '' unless refused; a newer server may send codes that this SDK does not know. */
  readonly code: Code | '' | (string & {})
  readonly hint: string
  /** About a send: it is not stored and never will be. */
  readonly settled: boolean
  /** The same request may succeed later. */
  readonly retryable: boolean
  /** Not before so many milliseconds; 0: as after a lost connection. */
  readonly retryAfterMs: number
  /** Names the line of the server's log. */
  readonly requestId: string
  /** Of the conversation, with behind and after_ahead. */
  readonly head: number
  /** Entries that cannot be read, with damaged that answers a history. Spec: P-9.5. */
  readonly damaged: Range | undefined

  constructor(f: Failure, options?: ErrorOptions) {
    super([f.code, f.message + (f.hint && ` (${f.hint})`)].filter(Boolean).join(': '), options)
    this.kind = f.kind
    this.code = f.code
    this.hint = f.hint
    this.settled = f.settled
    this.retryable = f.retryable
    this.retryAfterMs = f.retryAfterMs
    this.requestId = f.requestId
    this.head = f.head
    this.damaged = f.damaged
  }
}

/**
 * Whether e is a PetrelError, also one of another copy of this package: an application that
 * loads it both as an ES module and as CommonJS has two classes of this name.
 */
export function isPetrelError(e: unknown): e is PetrelError {
  return typeof e === 'object' && e !== null && brand in e
}

/** The failure that something thrown stands for. */
export function failureOf(e: unknown, kind: 'link' | 'store' = 'link'): Failure {
  if (!isPetrelError(e)) return failure(kind, e instanceof Error ? e.message : String(e))
  const { code, hint, settled, retryable, retryAfterMs, requestId, head, damaged } = e
  const message = e.message.slice(code === '' ? 0 : code.length + 2, hint === '' ? undefined : -(hint.length + 3))
  return { kind: e.kind, code, message, hint, settled, retryable, retryAfterMs, requestId, head, ...(damaged ? { damaged } : {}) }
}

/** An error of this SDK with a code of the catalogue. */
export function refused(code: Code, message: string, more: Partial<Failure> = {}): PetrelError {
  return new PetrelError(refusal(code, message, more))
}
