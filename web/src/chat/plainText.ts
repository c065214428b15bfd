import type { Message } from '@petrel-im/sdk'
import { useContext, useEffect } from 'react'
import { nameOf, type Names, OpenConv, useNames } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { plainText } from './markup.js'

const mostAsked = 5 // names of mentioned users that are looked up; one line has no room for more

/** Returns a message on one line: its text, with the names of mentioned users. */
export function plainOf(text: string, mentions: readonly string[], names: Names): string {
  return mentions.length === 0 ? plainText(text) : plainText(text, (user) => mentions.includes(user) ? nameOf(names, user) : undefined)
}

const nobody: readonly string[] = []

/** The hook for plainOf: it draws again when a name becomes known. */
export function usePlain(text: string | undefined, rel: Partial<Pick<NonNullable<Message['rel']>, 'mentions'>> | undefined, conv?: string): string {
  const { profiles } = useSession()
  const open = useContext(OpenConv)
  const mentions = rel?.mentions ?? nobody
  useEffect(() => {
    for (const user of mentions.filter((u) => text?.includes(`@${u}`)).slice(0, mostAsked)) profiles.want(user, { conv: conv ?? open })
  }, [conv, mentions, open, profiles, text])
  return useNames((names) => plainOf(text ?? '', mentions, names))
}
