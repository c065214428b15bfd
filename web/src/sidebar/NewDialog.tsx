import { type ReactElement, useMemo } from 'react'
import { Later } from '../Later.js'

/** The dialog that is open: for a new chat, a new group, or the contacts. */
export type Beginning = 'chat' | 'group' | 'contacts' | undefined

const load = {
  chat: () => import('../parts.js').then((m) => m.NewChatDialog),
  group: () => import('../parts.js').then((m) => m.NewGroupDialog),
  contacts: () => import('../parts.js').then((m) => m.ContactsDialog),
} as const

/** The dialog to begin a chat or a group, or to see the contacts, if it is open. */
export function NewDialog({ open, onOpen }: { readonly open: Beginning; readonly onOpen: (open: Beginning) => void }): ReactElement | null {
  const of = useMemo(() => ({ onOpen, onClose: () => onOpen(undefined) }), [onOpen])
  return open === undefined ? null : <Later<typeof of> key={open} load={load[open]} onFailed={of.onClose} of={of} />
}
