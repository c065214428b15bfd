import type { Client, Conversation, Message } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { useToast } from '../../ui/index.js'
import { useTranslation } from '../i18n/index.js'
import { useOfClient } from '../clientSnapshot.js'
import { type Away, formatHidden, isAway, parseHidden, type Range } from './inTimeline.js'

const longestValue = 1024 // bytes, P-8.10

const made = new Map<string, { readonly key: string; readonly away: Away }>() // by user and conversation; the same object while the setting is the same

/** Returns the messages that the person has hidden in a conversation, on any device. */
export function awayOf(client: Client, conv: string): Away {
  const { clearedTo, hidden } = client.conversation(conv)?.personal ?? { clearedTo: 0, hidden: '' }
  const key = `${clearedTo} ${hidden}`
  const id = `${client.status().user}/${conv}`
  const old = made.get(id)
  if (old?.key === key) return old.away
  const away = { clearedTo, hidden: parseHidden(hidden) }
  made.set(id, { key, away })
  return away
}

export function useAway(conv: string): Away {
  return useOfClient((client) => awayOf(client, conv))
}

/** Whether an entry is hidden from the person. */
export function useIsAway(conv: string, seq: number): boolean {
  return useOfClient((client) => isAway(seq, awayOf(client, conv)))
}

/**
 * Returns functions that hide messages on all devices of the person and for nobody else: `hide` single ones of one
 * conversation, or shows a toast if the setting has no room for more; `clear` all so far, which also become read.
 */
export function usePutAway(): { readonly hide: (messages: readonly Message[]) => Promise<void>; readonly clear: (v: Conversation) => Promise<void> } {
  const client = useClient()
  const { t } = useTranslation()
  const toast = useToast()
  return {
    async hide(messages) {
      const conv = messages[0]?.conv ?? ''
      const { clearedTo, hidden } = awayOf(client, conv)
      const value = formatHidden([...hidden, ...messages.map((m): Range => [m.seq, m.seq])].filter(([, to]) => to > clearedTo))
      if (value.length > longestValue) toast(t('hideFull'))
      else await client.changeSettings(conv, '', { hidden: value })
    },
    async clear(v) {
      client.markRead(v.id, v.head)
      await client.changeSettings(v.id, '', { cleared_to: String(v.head), hidden: '' })
    },
  }
}
