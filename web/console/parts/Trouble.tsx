import type { ReactElement } from 'react'
import { Icon } from '../../ui/index.js'
import type { CallError } from '../call.js'
import { en } from '../i18n/en.js'
import { named, useTranslation } from '../i18n/index.js'

/**
 * Shows the error of a call: the text for its code, the message of the server if it is another one, and the pause
 * before a retry.
 */
export function Trouble({ error }: { readonly error: CallError }): ReactElement {
  const tr = useTranslation()
  const text = named(tr, 'error', error.code)
  const said = error.code === 'network' || isThatOf(error) ? '' : error.message
  return (
    <div className="trouble" role="alert">
      <Icon name="alert" small />
      <span>{text}{said !== '' && <span className="quiet"> {said}</span>}{error.retryAfterS > 0 && ` ${tr.t('retryAfter', { n: error.retryAfterS })}`}</span>
    </div>
  )
}

/** Whether the message of the server is empty, or begins with the English text for its code. */
function isThatOf({ code, message }: CallError): boolean {
  const plain = (sentence: unknown): string => String(sentence).toLowerCase().replace(/\.$/, '')
  return message === '' || plain(message).startsWith(plain(en[`error_${code}` as keyof typeof en]))
}
