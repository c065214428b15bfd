import { useSyncExternalStore } from 'react'
import type { OperatorSessionJson } from './wire/types_gen.js'

/**
 * The session of the operator in this tab. It is kept in sessionStorage, which ends with the tab. It is not in a
 * cookie, so a request of another site cannot use it. A new tab of the console asks the open ones for it.
 */
export interface Session extends OperatorSessionJson {
  readonly token: string
}

const kept = 'petrel-console:session'
const offerMs = 250 // how long a new tab waits for another one to hand the session over

let now = read()
let over = false // the last session expired
const listeners = new Set<() => void>()
const tabs = new BroadcastChannel('petrel-console') // of this origin only
tabs.onmessage = ({ data }: MessageEvent<{ readonly kind: 'wanted' | 'ended' } | { readonly kind: 'offered'; readonly session: Session }>) => {
  if (data.kind === 'wanted' && now) tabs.postMessage({ kind: 'offered', session: now })
  if (data.kind === 'offered' && !now) set(data.session)
  if (data.kind === 'ended') set(undefined)
}

function read(): Session | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(kept) ?? 'null') as Session | null ?? undefined
  } catch {
    return undefined
  }
}

function set(session: Session | undefined): void {
  now = session
  try {
    if (session) sessionStorage.setItem(kept, JSON.stringify(session))
    else sessionStorage.removeItem(kept)
  } catch {
    // Without sessionStorage a reload asks for the password again.
  }
  for (const f of listeners) f()
}

export function begin(session: OperatorSessionJson): void {
  over = false
  set({ ...session, token: session.token ?? now?.token ?? '' })
}

/** Ends the session in this tab; `everywhere` (a logout) in the other tabs too. `expired` sets isOver. */
export function end(how: 'expired' | 'everywhere'): void {
  over = how === 'expired' && now !== undefined
  if (how === 'everywhere') tabs.postMessage({ kind: 'ended' })
  set(undefined)
}

export function session(): Session | undefined {
  return now
}

/** Whether the last session of this tab expired. */
export function isOver(): boolean {
  return over
}

/** If this tab has no session, asks the other tabs for theirs, and waits offerMs for an answer. */
export async function takeOver(): Promise<void> {
  if (now) return
  tabs.postMessage({ kind: 'wanted' })
  await new Promise((resolve) => setTimeout(resolve, offerMs))
}

function subscribe(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

export function useSession(): Session | undefined {
  return useSyncExternalStore(subscribe, session)
}

/** Whether a session has a scope; admin includes all. */
export function may(scope: string, of: Session | undefined = now): boolean {
  return of?.scopes?.some((s) => s === scope || s === 'admin') ?? false
}
