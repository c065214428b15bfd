import type { Outgoing } from '@petrel-im/sdk'
import { useStatus } from '@petrel-im/sdk/react'
import { createContext, type ReactElement, useContext } from 'react'
import { ConnectionText } from '../connection.js'
import { useTranslation } from '../i18n/index.js'
import { useHeld, useLasting } from '../useLasting.js'
import { waitText } from './failureText.js'

const silentMs = 1000 // a message that waits for less than this needs no words
const heldMs = 2000 // refusals of the messages of a queue come one by one

/** The code for which the server refuses the messages of a chat for now, if that lasts; ''. */
export function usePutOff(pending: readonly Outgoing[]): string {
  const code = useHeld(pending.find((o) => o.state === 'sending' && o.error)?.error?.code ?? '', heldMs)
  return useLasting(code !== '', silentMs) ? code : ''
}

/** The code for which the messages of the chat wait. */
export const PutOff = createContext('')

/** Says below the newest waiting message why it waits. */
export function WaitLine(): ReactElement | null {
  const { t } = useTranslation()
  const { state } = useStatus()
  const connection = useContext(ConnectionText)
  const code = useContext(PutOff)
  const text = state !== 'live' && connection ? t('waitOffline') : code ? waitText(code, t) : ''
  return text ? <div className="wait-line" role="status"><span>{text}</span></div> : null
}

/** The newest waiting message, which has the notice. */
export function newestWaiting(pending: readonly Outgoing[]): Outgoing | undefined {
  return pending.findLast((o) => o.state === 'sending' && !o.draft.edit && !o.draft.recall)
}
