import { useStatus } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useState } from 'react'
import { useTranslation } from '../i18n/index.js'

const silentMs = 5000 // a connection that is back within this is not worth a word

/** Says calmly that there is no connection, if it lasts. */
export function ConnectionLine(): ReactElement {
  const { t } = useTranslation()
  const { state, warnings } = useStatus()
  const [long, setLong] = useState(false)
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
  useEffect(() => {
    if (state === 'live') {
      setLong(false)
      return undefined
    }
    const timer = setTimeout(() => setLong(true), silentMs)
    return () => clearTimeout(timer)
  }, [state])
  const text = long && state !== 'live' ? t(online ? 'reconnecting' : 'waitingForNetwork') : warnings.includes('memory') ? t('memoryOnly') : ''
  return <div role="status" className={text ? 'connection' : 'unseen'}>{text}</div>
}
