import type { Client } from '@petrel-im/sdk'
import { useClient, useContacts, useConversations } from '@petrel-im/sdk/react'
import { useEffect, useState } from 'react'
import { useSession } from '../account/SessionContext.js'
import { isListed } from './chatList.js'

const mostGroups = 20 // groups whose members are read, the newest first
const mostMembers = 200 // members that are read of each group

const read = new WeakMap<Client, readonly string[]>() // the last result

/**
 * Returns the people whom the person knows: those of direct conversations first, then contacts, then members of up to
 * mostGroups groups. The members are read when wanted is true; before that they are those of the last reading.
 */
export function usePeople(wanted: boolean): readonly string[] {
  const client = useClient()
  const { user } = useSession()
  const all = useConversations()
  const contacts = useContacts().filter((c) => c.sinceMs).map((c) => c.user)
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
  return [...new Set([...peers, ...contacts, ...members])].filter((u) => u !== user)
}

async function readMembers(client: Client): Promise<readonly string[]> {
  const users = new Set<string>()
  for (const v of client.conversations().filter((c) => c.kind === 'group' && isListed(c) && !c.left).slice(0, mostGroups)) {
    const { members = [] } = await client.call('petrel.v1.ConversationService/ListMembers', { conv: v.id, limit: mostMembers })
    for (const { user = '' } of members) users.add(user)
  }
  return [...users]
}

/** Returns how many requests of others wait for an answer. */
export function useRequests(): number {
  return useContacts().filter((c) => c.receivedMs).length
}
