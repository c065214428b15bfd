import { setting, takeSetting } from './settings.js'
import type { Core, Live } from './state.js'

const names = ['contact', 'contact_sent', 'contact_received', 'first_messages'] as const

/**
 * The values of the settings that say what another user is: since when they are a contact, when the user asked them,
 * when they asked the user, and since when their first messages wait. Each is a time in Unix ms, and after a blank a
 * text; '': not so. Spec: P-14.7, P-14.12.
 */
export type ContactValues = readonly string[]

export function contactValues(c: Core, user: string): ContactValues {
  return names.map((name) => setting(c, '', user, name))
}

/** Calls f with each user who has, or had, such a setting. */
export function eachContact(c: Core, f: (user: string, values: ContactValues) => void): void {
  for (const of of c.settings.values()) {
    const all = names.map((name) => of.get(name))
    const { user = '' } = all.find((s) => s) ?? {}
    if (user !== '') f(user, all.map((s) => s?.value ?? ''))
  }
}

/** The state of the client when a call began. */
export interface ContactCall {
  readonly live: Live | undefined
  readonly seq: number // of the newest setting
}

export function contactCall(c: Core): ContactCall {
  let seq = 0
  for (const of of c.settings.values()) for (const s of of.values()) seq = Math.max(seq, s.seq)
  return { live: c.live, seq }
}

/**
 * Takes the answer of a call. It counts as an entry of the inbox that came just before the call, so the entry of the
 * change, and all later ones, replace it. An answer on another connection than the one of the call is dropped: it may
 * be older than what the sync has brought. Spec: S-21.2.
 */
export function contactAnswered(c: Core, { live, seq }: ContactCall, user: string, values: ContactValues): void {
  if (!live || c.live !== live) return
  const before = contactValues(c, user)
  names.forEach((name, i) => {
    const value = values[i] ?? ''
    if (value !== before[i]) takeSetting(c, { seq, conv: '', user, name, value })
  })
}
