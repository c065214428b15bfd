import { type ReactElement, useState } from 'react'
import { Button, Icon } from '../ui/index.js'
import { useTranslation } from './i18n/index.js'
import { type Beginning, NewDialog } from './sidebar/NewDialog.js'

/** The place of a chat, beside a list in which none is chosen. */
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
