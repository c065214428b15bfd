import { type ReactElement, useState } from 'react'
import { Button, Icon } from '../ui/index.js'
import { useTranslation } from './i18n/index.js'
import { type Beginning, NewDialog } from './sidebar/NewDialog.js'

/** The pane in place of a chat, while no conversation in the list is chosen. */
export function NoChat(): ReactElement {
  const { t } = useTranslation()
  const [open, setOpen] = useState<Beginning>(undefined)
  return (
    <div className="no-chat">
      <span className="no-chat-picture"><Icon name="chats" /></span>
      <h2>{t('chooseConversation')}</h2>
      <p className="quiet">{t('chooseNote')}</p>
      <Button look="primary" onClick={() => setOpen('chat')}>{t('findPerson')}</Button>
      <NewDialog open={open} onOpen={setOpen} />
    </div>
  )
}
