import type { Contact } from '@petrel-im/sdk/contacts'
import type { ReactElement } from 'react'
import { useName } from '../account/useName.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { RequestButtons } from './RequestButtons.js'
import './contacts.css'

/** Says above the field that the other user wants to become a contact, with the buttons to answer that. */
export default function ContactRequestLine({ contact, onDone }: { readonly contact: Contact; readonly onDone: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(contact.user)
  return (
    <div className="blocked-line request-line">
      <span dir="auto">{t('asksYou', { name })}{contact.greeting !== '' && <span className="quiet"> {contact.greeting}</span>}</span>
      <RequestButtons contact={contact} onDone={onDone} />
    </div>
  )
}
