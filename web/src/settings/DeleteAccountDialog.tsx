import { isPetrelError } from '@petrel-im/sdk'
import { type FormEvent, type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, Field, toast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useOfClient, useUnsent } from '../clientSnapshot.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { go } from '../route.js'

/** Says what the deletion of the account means, and deletes it with the password. */
export function DeleteAccountDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const session = useSession()
  const unsent = useUnsent()
  const owned = useOfClient((c) => c.conversations()).filter((v) => v.role === 'owner' && !v.left).length
  const [password, setPassword] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | undefined>(undefined)
  const remove = (e: FormEvent): void => {
    e.preventDefault()
    if (busy) return
    setBusy(true)
    setError(undefined)
    session.deleteAccount?.(password).then(() => {
      toast(t('accountDeleted'))
      go({})
    }, (why: unknown) => {
      const code = isPetrelError(why) ? why.code : ''
      setBusy(false)
      setError(code === 'bad_credentials' ? t('errorOldPassword') : code === 'forbidden' ? t('errorCannotDelete') : thrownText(why, t))
    })
  }
  return (
    <Dialog title={t('deleteAccountTitle')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="danger-primary" type="submit" form="delete" disabled={busy}>{t('deleteAccountNow')}</Button></>}>
      <form id="delete" className="dialog-body" onSubmit={remove}>
        <ul className="delete-effects">
          <li>{t('deleteLogsOut')}</li>
          <li>{t('deleteProfile')}</li>
          <li>{t('deleteMessages')}</li>
          <li>{t('deleteBack')}</li>
          {owned > 0 && <li>{t('deleteGroups', { n: owned })}</li>}
        </ul>
        {unsent > 0 && <p className="field-error" role="alert">{t('unsentLost', { n: unsent })}</p>}
        <Field label={t('password')} hint={t('deletePasswordHint')} type="password" reveal={t('showPassword')} autoComplete="current-password" value={password} error={error} onChange={(e) => setPassword(e.target.value)} />
      </form>
    </Dialog>
  )
}
