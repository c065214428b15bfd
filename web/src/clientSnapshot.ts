import type { Client, Conversation, Outgoing } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useEffect, useState, useSyncExternalStore } from 'react'

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

/** How many messages of the account are not sent, those of other tabs too. */
export function useUnsent(): number {
  const client = useClient()
  const [unsent, setUnsent] = useState(0)
  useEffect(() => client.subscribe(() => void client.unsent().then(setUnsent, () => {})), [client]) // nothing is known of any
  return unsent
}
