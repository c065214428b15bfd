import type { Message } from '@petrel-im/sdk'
import { useEffect, useSyncExternalStore } from 'react'
import type { Names } from '../account/displayNames.js'
import { useSession } from '../account/SessionContext.js'
import { plainText } from './markup.js'

const mostAsked = 5 // names of mentioned users that are looked up; one line has no room for more

/** Returns a message on one line: its text, with the names of mentioned users. */
export function plainOf(text: string, mentions: readonly string[], names: Names): string {
  return mentions.length === 0 ? plainText(text) : plainText(text, (user) => mentions.includes(user) ? names.of(user) : undefined)
}

const nobody: readonly string[] = []

/** The hook for plainOf: it draws again when a name becomes known. */
export function usePlain(text: string | undefined, rel: Partial<Pick<NonNullable<Message['rel']>, 'mentions'>> | undefined): string {
  const { names } = useSession()
  const mentions = rel?.mentions ?? nobody
  useEffect(() => {
    for (const user of mentions.filter((u) => text?.includes(`@${u}`)).slice(0, mostAsked)) names.want(user)
  }, [mentions, names, text])
  return useSyncExternalStore(names.subscribe, () => plainOf(text ?? '', mentions, names))
}
