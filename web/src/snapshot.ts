import type { Client, Conversation, Outgoing } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useSyncExternalStore } from 'react'

/** A snapshot of the client, read again at each change. What has not changed is the same object, and draws nothing. */
export function useOfClient<T>(read: (client: Client) => T): T {
  const client = useClient()
  const subscribe = useCallback((changed: () => void) => client.subscribe(changed), [client])
  const snapshot = (): T => read(client)
  return useSyncExternalStore(subscribe, snapshot, snapshot)
}

/** The conversation of a chat: by its id, or the direct one with a user. */
export function useChat(conv: string, peer: string): Conversation | undefined {
  return useOfClient((client) => client.conversation(conv || client.direct(peer)))
}

/** What is on its way to a chat. */
export function usePendingOf(conv: string, peer: string): readonly Outgoing[] {
  return useOfClient((client) => peer === '' ? client.pending(conv) : client.pendingTo(peer))
}
