import type { Profiles } from '@petrel-im/sdk/profiles'
import { useProfile } from '@petrel-im/sdk/react'
import { createContext, useContext, useEffect } from 'react'
import { useSession } from './SessionContext.js'

/** The conversation that is open around a view; '': none. */
export const OpenConv = createContext('')

/** Returns the display name of a user, or the id until it is known, or if the user has none. */
export function nameOf(profiles: Profiles, user: string): string {
  return profiles.get(user)?.displayName || user
}

/**
 * Returns the name of a user whom the view shows, and draws it again when it changes. In an open conversation the user
 * is watched, so a change shows at once. conv: the conversation of a view outside of the open one, such as a row of
 * the list.
 */
export function useName(user: string, conv?: string): string {
  const { watch } = useSession()
  const open = useContext(OpenConv)
  useEffect(() => open === '' || conv !== undefined || user === '' ? undefined : watch([user], open), [conv, open, user, watch])
  return useProfile(user, conv ?? open)?.displayName || user
}
