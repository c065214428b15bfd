import { type ReactElement, useCallback } from 'react'
import { Later } from '../Later.js'

/** The dialog that is open: for a new chat, or a new group. */
export type Beginning = 'chat' | 'group' | undefined

const loadChat = () => import('../parts.js').then((m) => m.NewChatDialog)
const loadGroup = () => import('../parts.js').then((m) => m.NewGroupDialog)

/** The dialog to begin a chat or a group, if it is open. */
export function NewDialog({ open, onOpen }: { readonly open: Beginning; readonly onOpen: (open: Beginning) => void }): ReactElement | null {
  const close = useCallback(() => onOpen(undefined), [onOpen])
  const group = useCallback(() => onOpen('group'), [onOpen])
  if (open === undefined) return null
  return open === 'chat' ? <Later key="chat" load={loadChat} onFailed={close} of={{ onGroup: group, onClose: close }} /> : <Later key="group" load={loadGroup} onFailed={close} of={{ onClose: close }} />
}
