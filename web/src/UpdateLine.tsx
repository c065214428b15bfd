import { type ReactElement, useEffect, useState } from 'react'
import { Button } from '../ui/index.js'
import { useTranslation } from './i18n/index.js'

/** Says that a newer version of the page is there. The person decides when to reload: what they write is kept. */
export function UpdateLine(): ReactElement | null {
  const { t } = useTranslation()
  const [ready, setReady] = useState(false)
  useEffect(() => {
    const workers = 'serviceWorker' in navigator ? navigator.serviceWorker : undefined
    if (!workers?.controller) return undefined // this is the first time
    const changed = (): void => setReady(true)
    workers.addEventListener('controllerchange', changed)
    return () => workers.removeEventListener('controllerchange', changed)
  }, [])
  if (!ready) return null
  return <div className="update" role="status">{t('newVersion')}<Button small look="primary" onClick={() => location.reload()}>{t('reload')}</Button></div>
}
