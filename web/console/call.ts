import { useEffect, useReducer, useState } from 'react'
import { end, session } from './session.js'
import type { Calls } from './wire/calls_gen.js'

type Service = 'OperatorService' | 'AdminService'
export type Method = keyof Calls & `petrel.v1.${Service}/${string}`
export type Name<M extends string = Method> = M extends `petrel.v1.${infer N}` ? N : never
type Of<N extends string> = `petrel.v1.${N}` extends keyof Calls ? Calls[`petrel.v1.${N}`] : never

/** The error of a call. The code is one of proto/errors.yaml, or 'network'. */
export class CallError extends Error {
  constructor(readonly code: string, text: string, readonly retryAfterS = 0) {
    super(text)
  }
}

/** The error in an answer of the server (P-12.5). */
interface Problem {
  readonly petrelCode?: string
  readonly message?: string
  readonly retryAfterMs?: number
}

/**
 * Makes the error of a refused call. If the server did not accept the token of the present session, it also ends the
 * session.
 */
function refused({ petrelCode = 'internal', message = '', retryAfterMs = 0 }: Problem, token: string | undefined): CallError {
  if (petrelCode === 'unauthenticated' && token && session()?.token === token) end('expired')
  return new CallError(petrelCode, message, retryAfterMs / 1000)
}

async function post(name: string, request: unknown, token: string | undefined, signal?: AbortSignal, accept = 'application/json'): Promise<Response> {
  let answer: Response
  try {
    answer = await fetch(`/petrel.v1.${name}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Accept: accept, ...(token ? { Authorization: `Bearer ${token}` } : {}) }, body: JSON.stringify(request), ...(signal ? { signal } : {}),
    })
  } catch (e) {
    if (signal?.aborted) throw e
    throw new CallError('network', String(e))
  }
  if (answer.ok) return answer
  const said = await answer.json().catch(() => ({})) as Problem
  throw refused({ ...said, petrelCode: answer.headers.get('Petrel-Error') ?? (answer.status === 404 ? 'no_method' : 'internal') }, token)
}

/** Calls a method of the API. A refusal or a failed connection is thrown as a CallError. */
export async function call<N extends Name>(name: N, request: Of<N>[0], signal?: AbortSignal): Promise<Of<N>[1]> {
  return await (await post(name, request, session()?.token, signal)).json() as Of<N>[1]
}

/**
 * Calls a method with a stream of answers (P-10.11), and calls `take` with each. It never returns: it throws the
 * reason of signal after an abort, and a CallError if the server refuses the call, the connection fails, or the
 * server ends the stream.
 */
export async function follow<N extends Name>(name: N, request: Of<N>[0], take: (answer: Of<N>[1]) => void, signal: AbortSignal): Promise<never> {
  const token = session()?.token
  const { body } = await post(name, request, token, signal, 'application/jsonl')
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const part = await reader?.read().catch((e: unknown) => {
      throw signal.aborted ? e : new CallError('network', String(e))
    })
    if (!part || part.done) throw new CallError('network', '')
    const lines = (rest + part.value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const said = JSON.parse(line) as Of<N>[1] & Problem
      if (said.petrelCode) throw refused(said, token)
      take(said)
    }
  }
}

/** The state of useCall. The last answer stays until the next one; the error of a changed request removes it. */
export interface Answer<T> {
  readonly answer: T | undefined
  readonly error: CallError | undefined
  readonly busy: boolean
  readonly again: () => void
}

/**
 * Calls a method at first, when its request changes, and when `again` is called. With everyMs it repeats the call
 * that long after each answer or error. If the request is undefined, there is no call.
 */
export function useCall<N extends Name>(name: N, request: Of<N>[0] | undefined, everyMs = 0): Answer<Of<N>[1]> {
  const key = JSON.stringify(request)
  const [state, setState] = useState<{ readonly key: string | undefined; readonly answer?: Of<N>[1]; readonly error?: CallError; readonly busy: boolean }>({ key, busy: request !== undefined })
  const [turn, again] = useReducer((n: number) => n + 1, 0)
  useEffect(() => {
    if (key === undefined) return undefined
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const ask = async (): Promise<void> => {
      setState((was) => ({ ...was, busy: true }))
      try {
        const answer = await call(name, JSON.parse(key) as Of<N>[0], stop.signal)
        if (!stop.signal.aborted) setState({ key, answer, busy: false })
      } catch (e) {
        if (stop.signal.aborted) return
        setState((was) => ({ ...(was.key === key && was.answer !== undefined ? { answer: was.answer } : {}), key, error: e instanceof CallError ? e : new CallError('internal', String(e)), busy: false }))
      }
      if (everyMs > 0 && !stop.signal.aborted) timer = setTimeout(() => void ask(), everyMs)
    }
    void ask()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [name, key, everyMs, turn])
  return { answer: state.answer, error: state.error, busy: state.busy, again }
}
