import type { Client, Conversation, Outgoing } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useEffect, useState, useSyncExternalStore } from 'react'

/**
 * Reads a snapshot of the client, again at each change. A part that has not changed is the same object, so it is
 * not drawn again.
 */
export function useOfClient<T>(read: (client: Client) => T): T {
  const client = useClient()
  const subscribe = useCallback((changed: () => void) => client.subscribe(changed), [client])
  const snapshot = (): T => read(client)
  return useSyncExternalStore(subscribe, snapshot, snapshot)
}

/** Returns the conversation of a chat: by its id, or the direct one with a user. */
export function useChat(conv: string, peer: string): Conversation | undefined {
  return useOfClient((client) => client.conversation(conv || client.direct(peer)))
}

/** Returns the pending messages of a chat. */
export function usePendingOf(conv: string, peer: string): readonly Outgoing[] {
  return useOfClient((client) => peer === '' ? client.pending(conv) : client.pendingTo(peer))
}

/** Returns how many messages of the account are not sent, in all tabs. */
export function useUnsent(): number {
  const client = useClient()
  const [unsent, setUnsent] = useState(0)
  useEffect(() => client.subscribe(() => void client.unsent().then(setUnsent, () => {})), [client]) // the store cannot be read, so the count stays
  return unsent
}
