import type { Conversation } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type ReactElement, useState } from 'react'
import { Button } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useContactChange } from '../contacts/useContactChange.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { ReportDialog } from '../report/ReportDialog.js'
import './firstMessagesLine.css'

/** Says above the field that the messages of a stranger wait or were refused, with the buttons to answer that. */
export default function FirstMessagesLine({ conversation: { peer, personal }, onRefused }: { readonly conversation: Conversation; readonly onRefused: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const name = useName(peer)
  const { busy, error, change } = useContactChange()
  const [reporting, setReporting] = useState(false)
  const waiting = personal.firstMessages === 'waiting'
  return (
    <div className="blocked-line first-messages-line">
      <span dir="auto">{t(waiting ? 'firstMessagesWait' : 'firstMessagesRefused', { name })}</span>
      <span className="first-messages-buttons">
        <Button small look="primary" disabled={busy} onClick={() => change((contacts, options) => contacts.acceptMessages(peer, options))}>{t('accept')}</Button>
        {waiting && <Button small disabled={busy} onClick={() => change((contacts, options) => contacts.refuseMessages(peer, options), onRefused)}>{t('refuse')}</Button>}
        {waiting && <Button small look="danger" disabled={busy} onClick={() => change((contacts, options) => client.block(peer, true, options).then(() => contacts.refuseMessages(peer, options)), onRefused)}>{t('block')}</Button>}
        {waiting && <Button small look="danger" onClick={() => setReporting(true)}>{t('report')}</Button>}
      </span>
      {reporting && <ReportDialog user={peer} onClose={() => setReporting(false)} />}
      {error !== undefined && <p className="field-error" role="alert">{error}</p>}
    </div>
  )
}
