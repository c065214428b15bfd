import type { Client } from '@petrel-im/sdk'
import { createContext, useContext } from 'react'
import type { Names } from './displayNames.js'

/** A logged-in user, with their client and what belongs to it. */
export interface Session {
  readonly user: string
  /** The prefix under which this browser keeps data outside the client, such as drafts. */
  readonly account: string
  readonly client: Client
  readonly names: Names
  /** Watches the presence of users until the returned function is called. */
  readonly watch: (users: readonly string[]) => () => void
  /**
   * Voids the tokens, and removes the data of the account from this browser. Absent in a <petrel-chat> element:
   * there the page logs out.
   */
  readonly logOut?: () => Promise<void>
}

export const SessionContext = createContext<Session | undefined>(undefined)

/** Returns the session of the open account. */
export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('no account is open')
  return session
}
