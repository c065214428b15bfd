import { useStatus } from '@petrel-im/sdk/react'
import { createContext, type ReactElement, useContext, useEffect, useRef, useState } from 'react'
import { useTranslation } from './i18n/index.js'
import { useLasting } from './useLasting.js'
import { isLoopback } from './pageMeta.js'

const silentMs = 1500 // a connection that is back within this is not worth a word

/** What there is to say of the connection; '' while there is nothing. One of a page, so that all places say the same. */
export function useConnectionText(): string {
  const { t } = useTranslation()
  const { state, warnings } = useStatus()
  const [online, setOnline] = useState(navigator.onLine)
  useEffect(() => {
    const changed = (): void => setOnline(navigator.onLine)
    addEventListener('online', changed)
    addEventListener('offline', changed)
    return () => {
      removeEventListener('online', changed)
      removeEventListener('offline', changed)
    }
  }, [])
  const live = state === 'live' // between two attempts the state changes often; the time counts from the loss
  const was = useRef(false)
  was.current ||= live
  const lost = !live || !online && !isLoopback() // without a network this host alone is reached
  const long = useLasting(lost, silentMs)
  return long || !live && !online ? t(!online ? 'waitingForNetwork' : was.current ? 'reconnecting' : 'connecting') : warnings.includes('memory') ? t('memoryOnly') : ''
}

export const ConnectionText = createContext('')

/** Says calmly, above the list, that there is no connection, if it lasts. */
export function ConnectionLine(): ReactElement {
  const text = useContext(ConnectionText)
  return <div role="status" className={text ? 'connection' : 'unseen'}>{text}</div>
}
