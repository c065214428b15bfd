import type { Message, Outgoing } from '@petrel-im/sdk'
import { createContext, useContext } from 'react'
import type { MenuPlace } from '../../ui/index.js'

/** The actions on a message of the timeline. The functions stay the same while a chat is open. */
export interface ChatActions {
  readonly reply: (m: Message) => void
  readonly edit: (m: Message) => void
  readonly forward: (m: Message) => void
  readonly thread: (root: number) => void // opens it
  readonly select: (m: Message) => void // or takes it out of the selection
  readonly menu: (m: Message, at: MenuPlace) => void
  readonly waitingMenu: (text: string, at: MenuPlace) => void // of a message that is not stored
  readonly react: (m: Message, emoji: string, removed: boolean) => void
  readonly whoReacted: (m: Message) => void
  readonly jumpTo: (seq: number) => void // or tells the person why not
  readonly chooseDay: (ms: number) => void // for a jump; ms is the day that is shown now
  readonly again: (o: Outgoing) => void
  readonly change: (o: Outgoing) => void // its text goes back into the field
  readonly discard: (o: Outgoing) => void
  readonly grow: () => void // a message grows next, and downwards: what is above stays where it is
  readonly unfolded: Set<string> // keys of long messages that are shown whole
  readonly openUser: (user: string) => void
}

export const ChatContext = createContext<ChatActions | undefined>(undefined)

export function useChatActions(): ChatActions {
  const actions = useContext(ChatContext)
  if (!actions) throw new Error('no chat is open')
  return actions
}
