import type { Contact } from '@petrel-im/sdk/contacts'
import { useContact } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useRef, useState } from 'react'
import { RowButton } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useOfClient } from '../clientSnapshot.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { ConfirmDialog } from '../info/ConfirmDialog.js'
import { AskDialog } from './AskDialog.js'
import { RemarkDialog } from './RemarkDialog.js'
import { RequestButtons } from './RequestButtons.js'
import { useContactChange } from './useContactChange.js'
import './contacts.css'

/** What a user is to the person, and what the person can do about it. */
export function ContactPart({ user }: { readonly user: string }): ReactElement | null {
  const { t } = useLaterTranslation()
  const me = useSession().user
  const contact = useContact(user)
  const blocked = useOfClient((c) => c.blocked()).includes(user)
  const part = useRef<HTMLElement>(null)
  const [asking, setAsking] = useState(false)
  const [acts, setActs] = useState(0)
  useEffect(() => { // the button with the focus is gone
    if (acts > 0) part.current?.focus({ preventScroll: true })
  }, [acts])
  if (user === me || !contact && blocked) return null
  const done = (): void => setActs((n) => n + 1)
  return (
    <section className="info-part" ref={part} tabIndex={-1}>
      {!contact ? <RowButton icon="add" onClick={() => setAsking(true)}>{t('addContact')}</RowButton> : contact.sinceMs ? <OfContact contact={contact} onDone={done} /> : <OfRequest contact={contact} onDone={done} />}
      {asking && <AskDialog user={user} onClose={() => { setAsking(false); done() }} />}
    </section>
  )
}

function OfRequest({ contact, onDone }: { readonly contact: Contact; readonly onDone: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(contact.user)
  return (
    <div className="contact-request">
      <p>{t(contact.receivedMs ? 'asksYou' : 'youAsked', { name })}</p>
      {contact.greeting !== '' && <p className="quiet" dir="auto">{contact.greeting}</p>}
      <RequestButtons contact={contact} onDone={onDone} />
    </div>
  )
}

function OfContact({ contact, onDone }: { readonly contact: Contact; readonly onDone: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(contact.user)
  const { error, change } = useContactChange()
  const [open, setOpen] = useState<'remark' | 'remove' | undefined>(undefined)
  const close = (): void => setOpen(undefined)
  const remove = async (): Promise<void> => change((contacts, options) => contacts.remove(contact.user, options), onDone)
  return (
    <>
      <RowButton icon="write" {...contact.remark === '' ? {} : { note: contact.remark }} onClick={() => setOpen('remark')}>{t('remark')}</RowButton>
      <RowButton icon="trash" danger onClick={() => setOpen('remove')}>{t('removeContact')}</RowButton>
      {error !== undefined && <p className="info-note field-error" role="alert">{error}</p>}
      {open === 'remark' && <RemarkDialog contact={contact} onClose={close} />}
      {open === 'remove' && <ConfirmDialog text={t('removeContactQuestion', { name })} yes="removeContact" act={remove} onClose={close} />}
    </>
  )
}
