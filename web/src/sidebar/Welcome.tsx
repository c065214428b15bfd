import { type ReactElement, useState } from 'react'
import { Logo, RowButton } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useGo } from '../environment.js'
import { useTranslation } from '../i18n/index.js'
import { type Beginning, NewDialog } from './NewDialog.js'

/** The first steps, for a person without conversations. */
export function Welcome(): ReactElement {
  const { t } = useTranslation()
  const { user } = useSession()
  const go = useGo()
  const [open, setOpen] = useState<Beginning>(undefined)
  return (
    <div className="welcome">
      <Logo size={64} />
      <h2>{t('welcome')}</h2>
      <p className="quiet">{t('findMe')} <b className="sidebar-handle">@{user}</b></p>
      <div className="card">
        <RowButton icon="search" note={t('findPersonNote')} onClick={() => setOpen('chat')}>{t('findPerson')}</RowButton>
        <RowButton icon="people" note={t('newGroupNote')} onClick={() => setOpen('group')}>{t('newGroup')}</RowButton>
        <RowButton icon="bookmark" note={t('notesNote')} onClick={() => go({ account: user, user })}>{t('notes')}</RowButton>
      </div>
      <NewDialog open={open} onOpen={setOpen} />
    </div>
  )
}
