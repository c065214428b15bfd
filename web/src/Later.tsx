import { type ComponentType, type ReactElement, useEffect, useState } from 'react'
import { useToast } from '../ui/index.js'
import { useTranslation } from './i18n/index.js'

interface LaterProps<P> {
  readonly load: () => Promise<ComponentType<P>> // the same function each time
  readonly of: P
  readonly onFailed: () => void
}

/**
 * A component whose script is loaded when it is shown for the first time. If the server has a newer version by now,
 * the script may be gone: then onFailed is called, and a toast tells the person.
 */
export function Later<P extends object>({ load, of, onFailed }: LaterProps<P>): ReactElement | null {
  const { t } = useTranslation()
  const toast = useToast()
  const [Part, setPart] = useState<ComponentType<P>>()
  useEffect(() => {
    if (Part) return
    load().then((part) => setPart(() => part), () => {
      onFailed()
      toast(t(navigator.onLine ? 'newVersion' : 'errorOffline'))
    })
  }, [Part, load, onFailed, t, toast])
  return Part ? <Part {...of} /> : null
}
