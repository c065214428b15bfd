import type { Contact } from '@petrel-im/sdk/contacts'
import { type FormEvent, type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button } from '../../ui/index.js'
import { ownNameOf } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { charactersIn, CountedField } from '../info/CountedField.js'
import { useContactChange } from './useContactChange.js'

const mostRemark = 64 // characters. P-14.7

/** The dialog in which the person says what they call a contact. */
export function RemarkDialog({ contact: { user, remark }, onClose }: { readonly contact: Contact; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const { profiles } = useSession()
  const { busy, error, change } = useContactChange()
  const [text, setText] = useState(remark)
  const save = (e: FormEvent): void => {
    e.preventDefault()
    change((contacts, options) => contacts.setRemark(user, text.trim(), options), onClose)
  }
  return (
    <Dialog title={t('remark')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="primary" type="submit" form="remark" disabled={busy || charactersIn(text) > mostRemark}>{t('save')}</Button></>}>
      <form id="remark" className="dialog-body" onSubmit={save}>
        <p className="ask-note">{t('remarkNote', { name: ownNameOf(profiles, user) })}</p>
        <CountedField label={t('remark')} value={text} most={mostRemark} error={error} onChange={(e) => setText(e.target.value)} />
      </form>
    </Dialog>
  )
}
