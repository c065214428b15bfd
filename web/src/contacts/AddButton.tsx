import { useContact } from '@petrel-im/sdk/react'
import type { ReactElement } from 'react'
import { Button } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useOfClient } from '../clientSnapshot.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import './contacts.css'

/** The button beside a user who was looked up: to ask them. For a contact, or a user who was asked, it is a word. */
export function AddButton({ user, onAsk }: { readonly user: string; readonly onAsk: () => void }): ReactElement | null {
  const { t } = useLaterTranslation()
  const me = useSession().user
  const contact = useContact(user)
  const blocked = useOfClient((c) => c.blocked()).includes(user)
  if (user === me || !contact && blocked) return null
  if (contact && !contact.receivedMs) return <span className="quiet contact-state">{t(contact.sinceMs ? 'isContact' : 'asked')}</span>
  return <Button small onClick={onAsk}>{t('addContact')}</Button>
}
