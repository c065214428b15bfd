import { useStatus } from '@petrel-im/sdk/react'
import { createContext, type ReactElement, useContext, useEffect, useRef, useState } from 'react'
import { useTranslation } from './i18n/index.js'
import { useLasting } from './useLasting.js'
import { isLoopback } from './pageMeta.js'

const silentMs = 1500 // a shorter loss of the connection is not shown

/**
 * Returns the text about the state of the connection; '' if all is well. The page calls it once, so that all places
 * show the same.
 */
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
  const live = state === 'live' // the state changes often between attempts, so the time counts from the loss
  const was = useRef(false)
  was.current ||= live
  const lost = !live || !online && !isLoopback() // without a network only this host can be reached
  const long = useLasting(lost, silentMs)
  return long || !live && !online ? t(!online ? 'waitingForNetwork' : was.current ? 'reconnecting' : 'connecting') : warnings.includes('memory') ? t('memoryOnly') : ''
}

export const ConnectionText = createContext('')

/** A line above the list that says that there is no connection, if that lasts. */
export function ConnectionLine(): ReactElement {
  const text = useContext(ConnectionText)
  return <div role="status" className={text ? 'connection' : 'unseen'}>{text}</div>
}
