import type { Contact } from '@petrel-im/sdk/contacts'
import { useContacts } from '@petrel-im/sdk/react'
import { type ReactElement, useMemo, useRef, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Avatar, RowButton, SearchField } from '../../ui/index.js'
import { isNamed, nameOf, useName, useNames } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useGo } from '../environment.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { PersonRow } from '../sidebar/PeopleResult.js'
import { rowKeys } from '../sidebar/rowKeys.js'
import type { Beginning } from '../sidebar/NewDialog.js'
import { RequestButtons } from './RequestButtons.js'
import './contacts.css'

const mostAtOnce = 100 // of each part, until the person asks for more: the name of each may have to be looked up

/** The contacts of the person, above them the requests that wait. */
export function ContactsDialog({ onOpen, onClose }: { readonly onOpen: (what: Beginning) => void; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const session = useSession()
  const go = useGo()
  const [wanted, setWanted] = useState('')
  const all = useByName(useContacts())
  const list = useRef<HTMLDivElement>(null)
  const found = wanted.trim() === '' ? all : all.filter((c) => isNamed(c.user, wanted, session))
  const open = (other: string): void => {
    onClose()
    go({ account: session.user, user: other })
  }
  const answered = (): void => list.current?.focus() // the button with the focus is gone
  const requestLine = (c: Contact): ReactElement => <RequestLine contact={c} onOpen={open} onDone={answered} />
  return (
    <Dialog title={t('contacts')} closeLabel={t('close')} onClose={onClose}>
      <div className="contacts" onKeyDown={rowKeys}>
        {all.length > 0 && <div className="dialog-search"><SearchField label={t('searchContacts')} clearLabel={t('clear')} value={wanted} onValue={setWanted} /></div>}
        <div className="dialog-body dialog-list dialog-tall" ref={list} tabIndex={-1}>
          {wanted.trim() === '' && <RowButton icon="add" note={t('findPersonNote')} onClick={() => onOpen('chat')}>{t('addContact')}</RowButton>}
          {all.length === 0 && <p className="sidebar-empty">{t('noContacts')}</p>}
          {all.length > 0 && found.length === 0 && <p className="sidebar-empty" role="status">{t('nothingFound')}</p>}
          <Part title={t('requests')} contacts={found.filter((c) => c.receivedMs).sort((a, b) => msOf(b) - msOf(a))}>{requestLine}</Part>
          <Part title={t('sentRequests')} contacts={found.filter((c) => c.sentMs).sort((a, b) => msOf(b) - msOf(a))}>{requestLine}</Part>
          <Part title={t('contacts')} contacts={found.filter((c) => c.sinceMs)}>{(c) => <PersonRow user={c.user} onOpen={() => open(c.user)} />}</Part>
        </div>
      </div>
    </Dialog>
  )
}

/** Returns when the request that waits was sent. */
function msOf({ receivedMs, sentMs }: Contact): number {
  return receivedMs ?? sentMs ?? 0
}

/** Sorts contacts by their names, as the language does. */
function useByName(contacts: readonly Contact[]): readonly Contact[] {
  const { tag } = useLaterTranslation()
  const session = useSession()
  const names = useNames((of) => contacts.map((c) => nameOf(of, c.user)).join('\n'))
  return useMemo(() => {
    const { compare } = new Intl.Collator(tag)
    return contacts.map((c) => [nameOf(session, c.user), c] as const).sort(([a], [b]) => compare(a, b)).map(([, c]) => c)
  }, [contacts, names, session, tag])
}

/** The contacts of one kind, under their title; nothing if there are none. */
function Part({ title, contacts, children }: { readonly title: string; readonly contacts: readonly Contact[]; readonly children: (c: Contact) => ReactElement }): ReactElement | null {
  const { t } = useLaterTranslation()
  const [most, setMost] = useState(mostAtOnce)
  if (contacts.length === 0) return null
  return (
    <section>
      <h3 className="sidebar-part">{title} · {contacts.length}</h3>
      <ul>{contacts.slice(0, most).map((c) => <li key={c.user}>{children(c)}</li>)}</ul>
      {contacts.length > most && <RowButton icon="down" onClick={() => setMost(most + mostAtOnce)}>{t('showMore', { n: contacts.length - most })}</RowButton>}
    </section>
  )
}

/** A request that waits, with its greeting. */
function RequestLine({ contact, onOpen, onDone }: { readonly contact: Contact; readonly onOpen: (user: string) => void; readonly onDone: () => void }): ReactElement {
  const name = useName(contact.user)
  return (
    <div className="contact-line">
      <button type="button" className="row" onClick={() => onOpen(contact.user)}>
        <Avatar id={contact.user} name={name} size={44} />
        <span className="row-text"><span className="contact-name cut" dir="auto">{name}</span><span className="row-note contact-greeting" dir="auto">{contact.greeting || `@${contact.user}`}</span></span>
      </button>
      <RequestButtons contact={contact} onDone={onDone} />
    </div>
  )
}
