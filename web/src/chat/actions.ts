import type { Message, Outgoing } from '@petrel-im/sdk'
import { createContext, useContext } from 'react'
import type { MenuPlace } from '../../ui/index.js'

/** The actions on messages of the timeline. The functions stay the same while a chat is open. */
export interface ChatActions {
  readonly reply: (m: Message) => void
  readonly edit: (m: Message) => void
  readonly forward: (m: Message) => void
  readonly thread: (root: number) => void // opens the thread
  readonly select: (m: Message) => void // selects or deselects
  readonly menu: (m: Message, at: MenuPlace) => void
  readonly waitingMenu: (o: Outgoing, at: MenuPlace) => void // for a pending message
  readonly react: (m: Message, emoji: string, removed: boolean) => void
  readonly whoReacted: (m: Message) => void
  readonly jumpTo: (seq: number) => void // or shows why it cannot
  readonly chooseDay: (ms: number) => void // asks for a day to jump to; ms is the day that is shown
  readonly again: (o: Outgoing) => void
  readonly change: (o: Outgoing) => void // puts its text back into the field
  readonly discard: (o: Outgoing) => void
  readonly grow: () => void // call it before a message grows: it grows downwards, and the rows above it keep their place
  readonly unfolded: Set<string> // keys of long messages that are shown whole
  readonly openUser: (user: string) => void
}

export const ChatContext = createContext<ChatActions | undefined>(undefined)

export function useChatActions(): ChatActions {
  const actions = useContext(ChatContext)
  if (!actions) throw new Error('no chat is open')
  return actions
}
