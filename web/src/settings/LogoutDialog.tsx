import { type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, toast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { go } from '../route.js'
import { useUnsent } from '../clientSnapshot.js'

/** Asks before the logout, and warns of unsent messages that would be lost. */
export function LogoutDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const session = useSession()
  const unsent = useUnsent()
  const [busy, setBusy] = useState(false)
  const out = (): void => {
    setBusy(true)
    session.logOut?.().then(() => go({}), (why: unknown) => {
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
