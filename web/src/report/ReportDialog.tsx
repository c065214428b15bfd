import { isPetrelError, type Message } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type FormEvent, type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, useToast } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { soon, thrownText } from '../chat/failureText.js'
import { useOfClient } from '../clientSnapshot.js'
import type { LaterKey } from '../i18n/laterTexts.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { charactersIn, CountedField } from '../info/CountedField.js'
import './report.css'

const mostText = 500 // characters. P-14.20

const reasons = {
  REPORT_REASON_SPAM: 'reasonSpam', REPORT_REASON_HARASSMENT: 'reasonHarassment', REPORT_REASON_VIOLENCE: 'reasonViolence', REPORT_REASON_SEXUAL: 'reasonSexual',
  REPORT_REASON_ILLEGAL: 'reasonIllegal', REPORT_REASON_IMPERSONATION: 'reasonImpersonation', REPORT_REASON_OTHER: 'reasonOther',
} as const satisfies Readonly<Record<string, LaterKey>>

type Reason = keyof typeof reasons

/** The dialog that reports a user, or a message of theirs, to the operators. */
export function ReportDialog({ user, message, onClose }: { readonly user: string; readonly message?: Message; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const name = useName(user)
  const [reason, setReason] = useState<Reason | undefined>(undefined)
  const [text, setText] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | undefined>(undefined)
  const [sent, setSent] = useState(false)
  const report = (e: FormEvent): void => {
    e.preventDefault()
    if (busy || !reason) return
    setBusy(true)
    setError(undefined)
    client.call('petrel.v1.AccountService/Report', { ...message ? { conv: message.conv, seq: String(message.seq) } : { user }, reason, text: text.trim() }, soon(client)).then(() => setSent(true), (why: unknown) => {
      const code = isPetrelError(why) ? why.code : ''
      setError(code === 'rate_limited' ? t('errorManyReports') : thrownText(why, t))
    }).finally(() => setBusy(false))
  }
  if (sent) return <Sent user={user} name={name} onClose={onClose} />
  return (
    <Dialog title={t(message ? 'reportMessage' : 'reportPerson')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="danger-primary" type="submit" form="report" disabled={busy || !reason || charactersIn(text) > mostText}>{t('sendReport')}</Button></>}>
      <form id="report" className="dialog-body" onSubmit={report}>
        <p>{t(message ? 'reportMessageNote' : 'reportPersonNote', { name })}</p>
        <fieldset className="report-reasons">
          <legend>{t('reportReason')}</legend>
          {(Object.keys(reasons) as Reason[]).map((key) => (
            <label key={key} className="report-reason"><input type="radio" name="reason" checked={key === reason} onChange={() => setReason(key)} /><span>{t(reasons[key])}</span></label>
          ))}
        </fieldset>
        <CountedField label={t('reportText')} value={text} most={mostText} error={error} onChange={(e) => setText(e.target.value)} />
      </form>
    </Dialog>
  )
}

function Sent({ user, name, onClose }: { readonly user: string; readonly name: string; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const toast = useToast()
  const blocked = useOfClient((c) => c.blocked()).includes(user)
  const block = (): void => void client.block(user, true).then(onClose, (why: unknown) => toast(thrownText(why, t)))
  return (
    <Dialog title={t('reportSent')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('close')}</Button>{!blocked && <Button look="danger-primary" onClick={block}>{t('blockName', { name })}</Button>}</>}>
      <div className="dialog-body" role="status">
        <p>{t('reportThanks', { name })}</p>
        {!blocked && <p className="quiet">{t('reportBlockNote', { name })}</p>}
      </div>
    </Dialog>
  )
}
