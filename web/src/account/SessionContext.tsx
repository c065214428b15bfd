import type { Client } from '@petrel-im/sdk'
import type { Profiles } from '@petrel-im/sdk/profiles'
import { createContext, useContext } from 'react'
import type { Watch } from './presenceWatch.js'

/** A logged-in user, with their client and what belongs to it. */
export interface Session {
  readonly user: string
  /** The prefix under which this browser keeps data outside the client, such as drafts. */
  readonly account: string
  readonly client: Client
  /** The profiles of the users that the views show. */
  readonly profiles: Profiles
  readonly watch: Watch
  /**
   * Voids the tokens, and removes the data of the account from this browser. Absent in a <petrel-chat> element:
   * there the page logs out.
   */
  readonly logOut?: () => Promise<void>
  readonly deleteAccount?: (password: string) => Promise<void> // and removes all data of the account here
}

export const SessionContext = createContext<Session | undefined>(undefined)

/** Returns the session of the open account. */
export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('no account is open')
  return session
}
