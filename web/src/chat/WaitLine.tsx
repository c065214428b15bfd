import type { Outgoing } from '@petrel-im/sdk'
import { useStatus } from '@petrel-im/sdk/react'
import { createContext, type ReactElement, useContext } from 'react'
import { ConnectionText } from '../connection.js'
import { useTranslation } from '../i18n/index.js'
import { useHeld, useLasting } from '../useLasting.js'
import { waitText } from './failureText.js'

const silentMs = 1000 // a shorter wait is not shown
const heldMs = 2000 // the text stays this long, because the messages of a queue are refused one by one

/**
 * Returns the code with which the server refuses the messages of a chat for now, once that has lasted silentMs;
 * otherwise ''.
 */
export function usePutOff(pending: readonly Outgoing[]): string {
  const code = useHeld(pending.find((o) => o.state === 'sending' && o.error)?.error?.code ?? '', heldMs)
  return useLasting(code !== '', silentMs) ? code : ''
}

/** The code with which the server refuses the messages of the chat for now. */
export const PutOff = createContext('')

/** Says why the newest waiting message waits, below it. */
export function WaitLine(): ReactElement | null {
  const { t } = useTranslation()
  const { state } = useStatus()
  const connection = useContext(ConnectionText)
  const code = useContext(PutOff)
  const text = state !== 'live' && connection ? t('waitOffline') : code ? waitText(code, t) : ''
  return text ? <div className="wait-line" role="status"><span>{text}</span></div> : null
}

/** Returns the newest message that waits to be sent; edits and recalls are left out. The WaitLine stands below it. */
export function newestWaiting(pending: readonly Outgoing[]): Outgoing | undefined {
  return pending.findLast((o) => o.state === 'sending' && !o.draft.edit && !o.draft.recall)
}
