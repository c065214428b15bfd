import { useConversations } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { isComposing, RowButton, SearchField } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useGo } from '../environment.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { isListed } from './chatList.js'
import { isNamed, usePeople } from './usePeople.js'
import { PeopleResult, PersonRow } from './PeopleResult.js'

const mostShown = 50 // the most people; the person narrows them by typing

/**
 * The dialog to begin a conversation: with a known person, with a user by their user id, with a group, or with
 * oneself.
 */
export function NewChatDialog({ onGroup, onClose }: { readonly onGroup: () => void; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const { user, profiles } = useSession()
  const go = useGo()
  const [wanted, setWanted] = useState('')
  const known = usePeople(true)
  const chats = useConversations().filter((v) => v.kind === 'direct' && isListed(v))
  const people = known.filter((u) => isNamed(u, wanted, profiles)).slice(0, mostShown)
  const open = (other: string): void => {
    onClose()
    go({ account: user, user: other })
  }
  const pressed = (e: KeyboardEvent<HTMLElement>): void => {
    if (isComposing(e)) return
    const rows = [...e.currentTarget.querySelectorAll<HTMLElement>('button.row, button.chat-row')]
    const at = rows.indexOf(document.activeElement as HTMLElement)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key]
    if (to !== undefined && rows.length > 0) {
      e.preventDefault()
      if (to < 0) e.currentTarget.querySelector('input')?.focus()
      else rows[Math.min(to, rows.length - 1)]?.focus()
    } else if (e.key === 'Enter' && e.target instanceof HTMLInputElement) {
      e.preventDefault()
      e.currentTarget.querySelector<HTMLElement>('.chat-row')?.click()
    }
  }
  return (
    <Dialog title={t('newChat')} closeLabel={t('close')} onClose={onClose}>
      <div onKeyDown={pressed}>
        <div className="dialog-search"><SearchField label={t('nameOrHandle')} clearLabel={t('clear')} value={wanted} onValue={setWanted} /></div>
        <div className="dialog-body dialog-list dialog-tall">
          {wanted.trim() === '' && (
            <>
              <RowButton icon="people" onClick={onGroup}>{t('newGroup')}</RowButton>
              <RowButton icon="bookmark" onClick={() => open(user)}>{t('notes')}</RowButton>
              {people.length > 0 && <h3 className="sidebar-part">{t('knownPeople')}</h3>}
            </>
          )}
          {people.map((u) => <PersonRow key={u} user={u} onOpen={() => open(u)} />)}
          {wanted.trim() !== '' && <PeopleResult key={wanted} wanted={wanted} known={chats} shown={people} onOpen={onClose} />}
        </div>
      </div>
    </Dialog>
  )
}
