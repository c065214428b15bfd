import type { Client } from '@petrel-im/sdk'
import { createContext, useContext } from 'react'
import type { Names } from './displayNames.js'

/** A logged-in user: their client, and its surroundings. */
export interface Session {
  readonly user: string
  /** The prefix under which this browser keeps data outside the client, such as drafts. */
  readonly account: string
  readonly client: Client
  readonly names: Names
  /** Watches the presence of users. Returns the function that ends that. */
  readonly watch: (users: readonly string[]) => () => void
  /** Voids the tokens, and removes what this browser has of the account. An element of a page has none: the page logs out. */
  readonly logOut?: () => Promise<void>
}

export const SessionContext = createContext<Session | undefined>(undefined)

/** The session whose account is open. */
export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('no account is open')
  return session
}
