import { useConversations } from '@petrel-im/sdk/react'
import { type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { RowButton, SearchField } from '../../ui/index.js'
import { isNamed } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { AddButton } from '../contacts/AddButton.js'
import { AskDialog } from '../contacts/AskDialog.js'
import { useGo } from '../environment.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { isListed } from './chatList.js'
import type { Beginning } from './NewDialog.js'
import { PeopleResult, PersonRow } from './PeopleResult.js'
import { rowKeys } from './rowKeys.js'
import { usePeople } from './usePeople.js'

const mostShown = 50 // the most people; the person narrows them by typing

/**
 * The dialog to begin a conversation: with a known person, with a user by their user id, with a group, or with
 * oneself.
 */
export function NewChatDialog({ onOpen, onClose }: { readonly onOpen: (what: Beginning) => void; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const session = useSession()
  const { user } = session
  const go = useGo()
  const [wanted, setWanted] = useState('')
  const [asked, setAsked] = useState('') // the user of the AskDialog; '': it is closed
  const known = usePeople(true)
  const chats = useConversations().filter((v) => v.kind === 'direct' && isListed(v))
  const people = known.filter((u) => isNamed(u, wanted, session)).slice(0, mostShown)
  const open = (other: string): void => {
    onClose()
    go({ account: user, user: other })
  }
  return (
    <Dialog title={t('newChat')} closeLabel={t('close')} onClose={onClose}>
      <div onKeyDown={rowKeys}>
        <div className="dialog-search"><SearchField label={t('nameOrHandle')} clearLabel={t('clear')} value={wanted} onValue={setWanted} /></div>
        <div className="dialog-body dialog-list dialog-tall">
          {wanted.trim() === '' && (
            <>
              <RowButton icon="people" onClick={() => onOpen('group')}>{t('newGroup')}</RowButton>
              <RowButton icon="bookmark" onClick={() => open(user)}>{t('notes')}</RowButton>
              {people.length > 0 && <h3 className="sidebar-part">{t('knownPeople')}</h3>}
            </>
          )}
          {people.map((u) => <PersonRow key={u} user={u} onOpen={() => open(u)} />)}
          {wanted.trim() !== '' && <PeopleResult key={wanted} wanted={wanted} known={chats} shown={people} onOpen={onClose} beside={(u) => <AddButton user={u} onAsk={() => setAsked(u)} />} />}
        </div>
      </div>
      {asked !== '' && <AskDialog user={asked} onClose={() => setAsked('')} />}
    </Dialog>
  )
}
