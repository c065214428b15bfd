import { type ReactElement, useContext } from 'react'
import { ConnectionText } from '../connection.js'
import { useTranslation } from '../i18n/index.js'
import { BackButton } from './ChatHeader.js'

/**
 * The view of a conversation that is not in the list of the person. Its header, with the button back, shows on a
 * phone only.
 */
export function MissingChat(): ReactElement {
  const { t } = useTranslation()
  const connection = useContext(ConnectionText)
  return (
    <div className="chat">
      <header className="chat-header only-narrow">
        <BackButton chat="" />
        {connection && <span className="chat-subtitle cut" role="status">{connection}</span>}
      </header>
      <div className="main-none chat-missing" role="status"><p>{t('noChat')}</p></div>
    </div>
  )
}
