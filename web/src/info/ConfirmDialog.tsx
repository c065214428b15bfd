import { type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, useToast } from '../../ui/index.js'
import { thrownText } from '../chat/failureText.js'
import { type AnyKey, useLaterTranslation } from '../i18n/useLaterTranslation.js'

/** A question before an action that cannot be undone. */
export interface Question {
  readonly text: string
  readonly yes: AnyKey
  readonly act: () => Promise<void>
}

export function ConfirmDialog({ text, yes, act, onClose }: Question & { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const toast = useToast()
  const [busy, setBusy] = useState(false)
  const confirm = (): void => {
    setBusy(true)
    act().then(onClose, (why: unknown) => {
      toast(thrownText(why, t))
      onClose()
    })
  }
  return (
    <Dialog title={t(yes)} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="danger-primary" disabled={busy} onClick={confirm}>{t(yes)}</Button></>}>
      <p className="dialog-body">{text}</p>
    </Dialog>
  )
}
