import '../ui/index.js'
import './console.css'
import { type ReactElement, useEffect, useState } from 'react'
import { Toasts } from '../ui/index.js'
import { addressOf, go, useAddress } from './address.js'
import { useTranslation } from './i18n/index.js'
import { Enroll, SignIn } from './pages/SignIn.js'
import { useSession } from './session.js'
import { Shell } from './Shell.js'

/**
 * Returns the code of a link such as /admin/enroll#k=CODE, and removes it from the address, so that the history of
 * the browser does not keep it.
 */
function takeCode(): string {
  const code = /^#k=([\w.~-]+)$/.exec(location.hash)?.[1] ?? ''
  if (code !== '') history.replaceState(null, '', location.pathname)
  return code
}

const codeOfLink = takeCode()

export function App(): ReactElement {
  const { language, t } = useTranslation()
  const session = useSession()
  const { page } = useAddress()
  const [code, setCode] = useState(codeOfLink)
  useEffect(() => {
    document.documentElement.lang = language
  }, [language])
  useEffect(() => {
    if (!session) document.title = t('consoleTitle')
  }, [session, t])
  useEffect(() => {
    const arrived = (): void => setCode((was) => takeCode() || was) // a link that was pasted into the address of the open page
    addEventListener('hashchange', arrived)
    return () => removeEventListener('hashchange', arrived)
  }, [])
  const over = (): void => {
    setCode('')
    go(addressOf(''), true)
  }
  return (
    <>
      {page === 'enroll' && code !== '' ? <Enroll code={code} onDone={over} /> : session ? <Shell session={session} /> : <SignIn />}
      <Toasts />
    </>
  )
}
