import { type FormEvent, type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { charactersIn, CountedField } from '../info/CountedField.js'
import { useContactChange } from './useContactChange.js'

const mostGreeting = 200 // characters. P-14.8

/** The dialog that asks a user to become a contact. */
export function AskDialog({ user, onClose }: { readonly user: string; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(user)
  const { busy, error, change } = useContactChange()
  const [greeting, setGreeting] = useState('')
  const ask = (e: FormEvent): void => {
    e.preventDefault()
    change((contacts, options) => contacts.ask({ user }, greeting.trim(), options), onClose)
  }
  return (
    <Dialog title={t('addContact')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="primary" type="submit" form="ask" disabled={busy || charactersIn(greeting) > mostGreeting}>{t('sendRequest')}</Button></>}>
      <form id="ask" className="dialog-body" onSubmit={ask}>
        <p className="ask-note">{t('askNote', { name })}</p>
        <CountedField label={t('greeting')} value={greeting} most={mostGreeting} error={error} onChange={(e) => setGreeting(e.target.value)} />
      </form>
    </Dialog>
  )
}
