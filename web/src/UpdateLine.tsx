import { type ReactElement, useEffect, useState } from 'react'
import { Button } from '../ui/index.js'
import { useTranslation } from './i18n/index.js'

/** Checks for a newer version of the page, which may have come while there was no connection. */
export async function lookForUpdate(): Promise<void> {
  if ('serviceWorker' in navigator) await (await navigator.serviceWorker.getRegistration())?.update()
}

/** Says that a newer version of the page is available. The person decides when to reload; drafts are kept. */
export function UpdateLine(): ReactElement | null {
  const { t } = useTranslation()
  const [ready, setReady] = useState(false)
  useEffect(() => {
    const workers = 'serviceWorker' in navigator ? navigator.serviceWorker : undefined
    if (!workers) return undefined
    let first = !workers.controller // the first worker is not a newer one
    const changed = (): void => {
      setReady(!first)
      first = false
    }
    workers.addEventListener('controllerchange', changed)
    return () => workers.removeEventListener('controllerchange', changed)
  }, [])
  if (!ready) return null
  return <div className="update" role="status">{t('newVersion')}<Button small look="primary" onClick={() => location.reload()}>{t('reload')}</Button></div>
}
