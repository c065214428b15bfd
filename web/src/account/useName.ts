import { contactsOf } from '@petrel-im/sdk/contacts'
import type { Profiles } from '@petrel-im/sdk/profiles'
import { useProfile } from '@petrel-im/sdk/react'
import { createContext, useCallback, useContext, useEffect, useSyncExternalStore } from 'react'
import { currentTranslation } from '../i18n/index.js'
import { type Session, useSession } from './SessionContext.js'

/** The conversation that is open around a view; '': none. */
export const OpenConv = createContext('')

/** The parts of a session that names come from. */
export type Names = Pick<Session, 'client' | 'profiles'>

/**
 * Returns the display name of a user, or the id until it is known, or if the user has none. Of a user who has deleted
 * the account only that is left to say.
 */
export function ownNameOf(profiles: Profiles, user: string): string {
  const profile = profiles.get(user)
  return profile?.deleted ? currentTranslation().t('deletedAccount') : profile?.displayName || user
}

/** Returns what the chat calls a user: the remark, if the user is a contact with one, or the display name. */
export function nameOf({ client, profiles }: Names, user: string): string {
  return contactsOf(client).get(user)?.remark || ownNameOf(profiles, user)
}

/** Whether one of the names contains what the person has typed. */
export function hasWords(names: readonly string[], wanted: string): boolean {
  const words = wanted.trim().toLowerCase().replace(/^@/, '')
  return names.some((name) => name.toLowerCase().includes(words))
}

/** Whether the user id, the remark, the display name or the handle of a user contains what the person has typed. */
export function isNamed(user: string, wanted: string, names: Names): boolean {
  return hasWords([user, nameOf(names, user), ownNameOf(names.profiles, user), names.profiles.get(user)?.handle ?? ''], wanted)
}

/** Reads names, and reads them again when one may have changed. */
export function useNames(read: (names: Names) => string): string {
  const session = useSession()
  const { client, profiles } = session
  const subscribe = useCallback((changed: () => void) => {
    const ends = [profiles.subscribe(changed), client.subscribe((c) => {
      if (c.account) changed()
    })]
    return () => {
      for (const end of ends) end()
    }
  }, [client, profiles])
  return useSyncExternalStore(subscribe, () => read(session))
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
  useProfile(user, conv ?? open) // asks for it
  return useNames((names) => nameOf(names, user))
}
