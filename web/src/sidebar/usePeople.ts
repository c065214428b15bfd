import type { Client } from '@petrel-im/sdk'
import { useClient, useConversations } from '@petrel-im/sdk/react'
import { useEffect, useState } from 'react'
import type { Profiles } from '@petrel-im/sdk/profiles'
import { nameOf } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { isListed } from './chatList.js'

const mostGroups = 20 // groups whose members are read, the newest first
const mostMembers = 200 // members that are read of each group

const read = new WeakMap<Client, readonly string[]>() // the last result

/**
 * Returns the people with whom the person shares a conversation: those of direct ones first, then members of up to
 * mostGroups groups. The members are read when wanted is true; before that they are those of the last reading.
 */
export function usePeople(wanted: boolean): readonly string[] {
  const client = useClient()
  const { user } = useSession()
  const all = useConversations()
  const [members, setMembers] = useState<readonly string[]>(read.get(client) ?? [])
  useEffect(() => {
    if (!wanted) return undefined
    let over = false
    readMembers(client).then((users) => {
      read.set(client, users)
      if (!over) setMembers(users)
    }, () => {}) // those of direct conversations are known without it
    return () => {
      over = true
    }
  }, [client, wanted])
  const peers = all.filter((v) => v.kind === 'direct' && isListed(v)).map((v) => v.peer)
  return [...new Set([...peers, ...members])].filter((u) => u !== user)
}

async function readMembers(client: Client): Promise<readonly string[]> {
  const users = new Set<string>()
  for (const v of client.conversations().filter((c) => c.kind === 'group' && isListed(c) && !c.left).slice(0, mostGroups)) {
    const { members = [] } = await client.call('petrel.v1.ConversationService/ListMembers', { conv: v.id, limit: mostMembers })
    for (const { user = '' } of members) users.add(user)
  }
  return [...users]
}

/** Whether the user id, the name or the handle of a user contains the words. */
export function isNamed(user: string, wanted: string, profiles: Profiles): boolean {
  const words = wanted.trim().toLowerCase().replace(/^@/, '')
  return user.toLowerCase().includes(words) || nameOf(profiles, user).toLowerCase().includes(words) || (profiles.get(user)?.handle.includes(words) ?? false)
}
