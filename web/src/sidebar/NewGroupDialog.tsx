import { useClient } from '@petrel-im/sdk/react'
import { type FormEvent, type ReactElement, useState } from 'react'
import { Button, Dialog, Field } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failure.js'
import { useTranslation } from '../i18n/index.js'
import { UserPicker } from '../info/UserPicker.js'
import { useGo } from '../environment.js'

/** Makes a group, which the person owns. */
export function NewGroupDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user } = useSession()
  const go = useGo()
  const [title, setTitle] = useState('')
  const [users, setUsers] = useState<readonly string[]>([])
  const [error, setError] = useState<string | undefined>(undefined)
  const [busy, setBusy] = useState(false)
  const create = (e: FormEvent): void => {
    e.preventDefault()
    if (busy || title.trim() === '') return
    setBusy(true)
    client.createGroup(title.trim(), users).then((conv) => {
      onClose()
      go({ account: user, conv })
    }, (why: unknown) => {
      setBusy(false)
      setError(thrownText(why, t))
    })
  }
  return (
    <Dialog
      title={t('newGroup')} closeLabel={t('close')} onClose={onClose}
      foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="primary" type="submit" form="new-group" disabled={busy || title.trim() === ''}>{t('create')}</Button></>}
    >
      <form id="new-group" className="dialog-body" onSubmit={create}>
        <Field label={t('groupTitle')} value={title} maxLength={100} error={error} onChange={(e) => setTitle(e.target.value)} />
        <UserPicker chosen={users} onChange={setUsers} />
      </form>
    </Dialog>
  )
}
