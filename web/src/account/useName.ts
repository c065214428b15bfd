import { useEffect, useSyncExternalStore } from 'react'
import { useSession } from './SessionContext.js'

/** The display name of a user, when it is known. */
export function useName(user: string, opened = false): string {
  const { names } = useSession()
  useEffect(() => names.want(user, opened), [names, user, opened])
  return useSyncExternalStore(names.subscribe, () => names.of(user))
}
