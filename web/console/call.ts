import { useEffect, useReducer, useState } from 'react'
import { end, session } from './session.js'
import type { Calls } from './wire/calls_gen.js'

type Service = 'OperatorService' | 'AdminService'
export type Method = keyof Calls & `petrel.v1.${Service}/${string}`
export type Name<M extends string = Method> = M extends `petrel.v1.${infer N}` ? N : never
type Of<N extends string> = `petrel.v1.${N}` extends keyof Calls ? Calls[`petrel.v1.${N}`] : never

/** Why a call was not answered. The code is one of proto/errors.yaml, or 'network'. */
export class CallError extends Error {
  constructor(readonly code: string, text: string, readonly retryAfterS = 0) {
    super(text)
  }
}

/** Calls a method of the API. A session that the server does not know any more ends here. */
export async function call<N extends Name>(name: N, request: Of<N>[0], signal?: AbortSignal): Promise<Of<N>[1]> {
  const token = session()?.token
  let answer: Response
  try {
    answer = await fetch(`/petrel.v1.${name}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}) }, body: JSON.stringify(request), ...(signal ? { signal } : {}),
    })
  } catch (e) {
    if (signal?.aborted) throw e
    throw new CallError('network', String(e))
  }
  if (answer.ok) return await answer.json() as Of<N>[1]
  const said = await answer.json().catch(() => ({})) as { readonly message?: string }
  const code = answer.headers.get('Petrel-Error') ?? (answer.status === 404 ? 'no_method' : 'internal')
  if (code === 'unauthenticated' && token && session()?.token === token) end('expired')
  throw new CallError(code, said.message ?? '', Number(answer.headers.get('Retry-After') ?? 0))
}

/** What a call has answered so far. While it is called again the last answer stays. */
export interface Answer<T> {
  readonly answer: T | undefined
  readonly error: CallError | undefined
  readonly busy: boolean
  readonly again: () => void
}

/** Calls a method when its request changes, and every so many ms after an answer if asked to. */
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
