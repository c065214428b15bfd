import { isPetrelError } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type FormEvent, type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, Field } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { membersFailure } from '../info/membersFailure.js'
import { useChoice, UserPicker } from '../info/UserPicker.js'
import { useGo } from '../environment.js'

/** The dialog that creates a group. The person becomes its owner. */
export function NewGroupDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const session = useSession()
  const { user } = session
  const go = useGo()
  const [title, setTitle] = useState('')
  const choice = useChoice([user])
  const [error, setError] = useState<string | undefined>(undefined)
  const [busy, setBusy] = useState(false)
  const create = async (e: FormEvent): Promise<void> => {
    e.preventDefault()
    if (busy || title.trim() === '') return
    setBusy(true)
    try {
      const users = await choice.take()
      if (!users) return
      const conv = await client.createGroup(title.trim(), users)
      onClose()
      go({ account: user, conv })
    } catch (why) {
      if (isPetrelError(why) && why.user) choice.refuse(membersFailure(why, session, t))
      else setError(thrownText(why, t))
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={t('newGroup')} closeLabel={t('close')} onClose={onClose}
      foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="primary" type="submit" form="new-group" disabled={busy || title.trim() === ''}>{t('create')}</Button></>}
    >
      <form id="new-group" className="dialog-body" onSubmit={(e) => void create(e)}>
        <Field label={t('groupTitle')} value={title} maxLength={100} error={error} onChange={(e) => setTitle(e.target.value)} />
        <UserPicker choice={choice} />
      </form>
    </Dialog>
  )
}
