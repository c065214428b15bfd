import { useEffect, useSyncExternalStore } from 'react'
import { useSession } from './SessionContext.js'

/**
 * Returns the display name of a user, or the id until it is known. opened: the person has opened the chat with that
 * user.
 */
export function useName(user: string, opened = false): string {
  const { names } = useSession()
  useEffect(() => names.want(user, opened), [names, user, opened])
  return useSyncExternalStore(names.subscribe, () => names.of(user))
}
