import { createContext, useContext } from 'react'
import type { Session } from './session.js'

export const SessionContext = createContext<Session | undefined>(undefined)

/** The session whose account is open. */
export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('no account is open')
  return session
}
