import { type FormEvent, type ReactElement, useState } from 'react'
import { Button, Choices, Field, IconButton, Logo } from '../../ui/index.js'
import { thrownText } from '../chat/failure.js'
import { useTranslation } from '../i18n/index.js'
import { page } from '../page.js'
import { prefer, usePreferences } from '../preferences.js'
import { go } from '../route.js'
import { isHandle } from '../sidebar/PeopleResult.js'
import { allAccounts } from './accounts.js'
import { logIn, register } from './session.js'
import './signin.css'

/** Where people log in, or make an account if the server lets them. */
export function SignIn({ note }: { readonly note?: string }): ReactElement {
  const { t, language } = useTranslation()
  const [making, setMaking] = useState(false)
  const [user, setUser] = useState('')
  const [password, setPassword] = useState('')
  const [displayName, setDisplayName] = useState('')
  const [invitation, setInvitation] = useState('')
  const [error, setError] = useState<string | undefined>(undefined)
  const [malformed, setMalformed] = useState(false)
  const [busy, setBusy] = useState(false)
  const [other] = allAccounts()
  usePreferences()

  const submit = (e: FormEvent): void => {
    e.preventDefault()
    const handle = user.trim().replace(/^@/, '')
    setMalformed(making && !isHandle(handle))
    if (busy || making && !isHandle(handle)) return
    setBusy(true)
    setError(undefined)
    const entering = making ? register({ user: handle, password, displayName: displayName.trim(), invitation: invitation.trim() }) : logIn({ user: handle, password })
    entering.then(() => go({ account: handle }, true), (why: unknown) => {
      setBusy(false)
      setError(thrownText(why, t))
    })
  }
  return (
    <main className="signin">
      {other !== undefined && <IconButton className="signin-back" icon="back" label={t('back')} onClick={() => go({ account: other })} />}
      <form className="signin-card" onSubmit={submit}>
        <Logo size={88} />
        <h1>{page.name}</h1>
        <p className="quiet">{note ?? t(making ? 'signUpNote' : 'signInNote')}</p>
        <div className="signin-fields">
          <Field label={t('handle')} hint={making ? t('handleHint') : undefined} error={making && malformed ? t('errorHandle') : undefined} name="username" autoComplete="username" autoCapitalize="none" spellCheck={false} required maxLength={64} value={user} onChange={(e) => setUser(making ? e.target.value.toLowerCase() : e.target.value)} autoFocus />
          {making && <Field label={t('displayName')} autoComplete="name" maxLength={64} value={displayName} onChange={(e) => setDisplayName(e.target.value)} />}
          <Field label={t('password')} hint={making ? t('passwordHint') : undefined} name="password" type="password" autoComplete={making ? 'new-password' : 'current-password'} required minLength={making ? 8 : 1} value={password} onChange={(e) => setPassword(e.target.value)} />
          {making && page.registration === 'invitation' && <Field label={t('invitation')} required value={invitation} onChange={(e) => setInvitation(e.target.value)} />}
        </div>
        {error !== undefined && <p className="field-error" role="alert">{error}</p>}
        <Button look="primary" wide type="submit" disabled={busy}>{t(making ? 'signUp' : 'signIn')}</Button>
        {page.registration !== 'closed' && <Button wide onClick={() => { setMaking(!making); setUser(making ? user : user.toLowerCase()); setError(undefined) }}>{t(making ? 'haveAccount' : 'noAccount')}</Button>}
      </form>
      <div className="signin-language"><Choices label={t('language')} value={language} onChange={(value) => prefer({ language: value })} of={[['en', 'English'], ['zh', '中文']]} /></div>
    </main>
  )
}
