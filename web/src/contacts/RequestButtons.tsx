import type { Contact } from '@petrel-im/sdk/contacts'
import type { ReactElement } from 'react'
import { Button } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useContactChange } from './useContactChange.js'

/** The buttons for a request that waits: to answer it, or to withdraw it. */
export function RequestButtons({ contact: { user, receivedMs }, onDone }: { readonly contact: Contact; readonly onDone: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(user)
  const { busy, error, change } = useContactChange()
  const button = (act: 'accept' | 'refuse' | 'withdraw', look: 'primary' | 'plain'): ReactElement => (
    <Button small look={look} disabled={busy} aria-label={t('actOn', { act: t(act), name })} onClick={() => change((contacts, options) => contacts[act](user, options), onDone)}>{t(act)}</Button>
  )
  return (
    <>
      <div className="contact-buttons">{receivedMs ? <>{button('accept', 'primary')}{button('refuse', 'plain')}</> : button('withdraw', 'plain')}</div>
      {error !== undefined && <p className="field-error contact-error" role="alert">{error}</p>}
    </>
  )
}
