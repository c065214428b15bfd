import { type ReactElement, useEffect, useState } from 'react'
import { Button, Dialog, toast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { logOut } from '../account/session.js'
import { thrownText } from '../chat/failure.js'
import { useTranslation } from '../i18n/index.js'
import { go } from '../route.js'

/** Logs out, after it has said what would be lost. */
export function LogoutDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const session = useSession()
  const [unsent, setUnsent] = useState(0)
  const [busy, setBusy] = useState(false)
  useEffect(() => {
    session.client.unsent().then(setUnsent, () => {}) // nothing is known of any
  }, [session])
  const out = (): void => {
    setBusy(true)
    logOut(session).then(() => go({}), (why: unknown) => {
      setBusy(false)
      toast(thrownText(why, t))
    })
  }
  return (
    <Dialog title={t('logOut')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="danger-primary" disabled={busy} onClick={out}>{t('logOut')}</Button></>}>
      <div className="dialog-body">
        <p>{t('logOutNote')}</p>
        {unsent > 0 && <p className="field-error" role="alert">{t('unsentLost', { n: unsent })}</p>}
      </div>
    </Dialog>
  )
}
