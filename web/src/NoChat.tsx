import { type ReactElement, useState } from 'react'
import { Button, Icon } from '../ui/index.js'
import { useTranslation } from './i18n/index.js'
import { NewChatDialog } from './sidebar/NewChatDialog.js'
import { NewGroupDialog } from './sidebar/NewGroupDialog.js'

/** The place of a chat, beside a list in which none is chosen. */
export function NoChat(): ReactElement {
  const { t } = useTranslation()
  const [open, setOpen] = useState<'chat' | 'group' | undefined>(undefined)
  const close = (): void => setOpen(undefined)
  return (
    <div className="no-chat">
      <span className="no-chat-picture"><Icon name="chats" /></span>
      <h2>{t('chooseConversation')}</h2>
      <p className="quiet">{t('chooseNote')}</p>
      <Button look="primary" onClick={() => setOpen('chat')}>{t('findPerson')}</Button>
      {open === 'chat' && <NewChatDialog onGroup={() => setOpen('group')} onClose={close} />}
      {open === 'group' && <NewGroupDialog onClose={close} />}
    </div>
  )
}
