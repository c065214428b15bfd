import { isPetrelError } from '@petrel-im/sdk'
import { type FormEvent, type ReactElement, useRef, useState } from 'react'
import { Button, Choices, Field, IconButton, Logo } from '../../ui/index.js'
import { thrownText } from '../chat/failureText.js'
import { fullDate } from '../i18n/dates.js'
import { useTranslation } from '../i18n/index.js'
import { page } from '../pageMeta.js'
import { prefer, usePreferences } from '../preferences.js'
import { go } from '../route.js'
import { isHandle } from '../sidebar/PeopleResult.js'
import { allAccounts } from './accounts.js'
import { sessions } from './session.js'
import './signin.css'

const leastPassword = 8 // P-11.1

const hasOtherLetters = (text: string): boolean => /[^\P{L}A-Za-z]/u.test(text)

/** The page where people log in, or create an account if the server allows that. */
export function SignIn({ note }: { readonly note?: string }): ReactElement {
  const translation = useTranslation()
  const { t, language } = translation
  const [making, setMaking] = useState(false)
  const [user, setUser] = useState('')
  const [password, setPassword] = useState('')
  const [displayName, setDisplayName] = useState('')
  const [invitation, setInvitation] = useState('')
  const [error, setError] = useState<string | undefined>(undefined)
  const [malformed, setMalformed] = useState<'handle' | 'script' | 'taken' | 'password' | 'weak' | undefined>(undefined)
  const [busy, setBusy] = useState(false)
  const [leaving, setLeaving] = useState<number | undefined>(undefined) // until when the account can be kept, in Unix milliseconds
  const [other] = allAccounts()
  const first = useRef<HTMLInputElement>(null)
  const second = useRef<HTMLInputElement>(null)
  usePreferences()

  const submit = (e: FormEvent): void => {
    e.preventDefault()
    enter(false)
  }
  const enter = (restore: boolean): void => {
    const handle = user.trim().replace(/^@/, '')
    const wrong = !making ? undefined : !isHandle(handle) ? hasOtherLetters(handle) ? 'script' : 'handle' : password.length < leastPassword ? 'password' : undefined
    setMalformed(wrong)
    setError(undefined)
    setLeaving(undefined)
    if (wrong === 'script' && displayName === '') setDisplayName(user.trim())
    if (wrong) (wrong === 'password' ? second : first).current?.focus()
    if (busy || wrong) return
    setBusy(true)
    const entering = making ? sessions.register({ user: handle, password, displayName: displayName.trim(), invitation: invitation.trim() }) : sessions.logIn({ user: handle, password, restore })
    entering.then((account) => go({ account }, true), (why: unknown) => {
      setBusy(false)
      if (isPetrelError(why) && why.code === 'weak_password') {
        setMalformed('weak')
        second.current?.focus()
      } else if (isPetrelError(why) && why.code === 'user_exists') {
        setMalformed('taken')
        first.current?.focus()
      } else if (isPetrelError(why) && why.code === 'account_leaving') setLeaving(Date.now() + why.retryAfterMs)
      else setError(making && isPetrelError(why) && why.code === 'invalid' ? t('errorReserved') : thrownText(why, t))
    })
  }
  const turn = (): void => {
    setMaking(!making)
    setUser(making ? user : user.toLowerCase())
    setError(undefined)
    setMalformed(undefined)
    first.current?.focus()
  }
  return (
    <main className="signin">
      {other !== undefined && <IconButton className="signin-back" icon="back" label={t('back')} onClick={() => go({ account: other })} />}
      <form className="signin-card" onSubmit={submit}>
        <Logo size={88} />
        <h1>{page.name}</h1>
        <p className="quiet">{note ?? t(making ? 'signUpNote' : 'signInNote')}</p>
        <div className="signin-fields">
          <Field ref={first} label={t('handle')} hint={making ? t('handleHint') : undefined} error={malformed === 'handle' ? t('errorHandle') : malformed === 'script' ? t('errorHandleScript') : malformed === 'taken' ? t('errorUserExists') : undefined} name="username" autoComplete="username" autoCapitalize="none" spellCheck={false} required maxLength={64} value={user} onChange={(e) => setUser(making ? e.target.value.toLowerCase() : e.target.value)} autoFocus />
          {making && <Field label={t('displayName')} hint={t('displayNameHint')} autoComplete="name" maxLength={64} value={displayName} onChange={(e) => setDisplayName(e.target.value)} />}
          <Field ref={second} label={t('password')} hint={making ? t('passwordHint') : undefined} error={malformed === 'password' ? t('passwordHint') : malformed === 'weak' ? t('errorPassword') : undefined} name="password" type="password" reveal={t('showPassword')} autoComplete={making ? 'new-password' : 'current-password'} required value={password} onChange={(e) => setPassword(e.target.value)} />
          {making && page.registration === 'invitation' && <Field label={t('invitation')} required value={invitation} onChange={(e) => setInvitation(e.target.value)} />}
        </div>
        {leaving !== undefined && <div className="signin-leaving" role="alert"><p>{t('accountLeaving', { when: fullDate(leaving, translation) })}</p><Button look="primary" wide disabled={busy} onClick={() => enter(true)}>{t('keepAccount')}</Button></div>}
        {error !== undefined && <p className="field-error" role="alert">{error}</p>}
        <Button look="primary" wide type="submit" disabled={busy}>{t(making ? 'signUp' : 'signIn')}</Button>
        {page.registration !== 'closed' && <Button wide onClick={turn}>{t(making ? 'haveAccount' : 'noAccount')}</Button>}
      </form>
      <div className="signin-language"><Choices label={t('language')} value={language} onChange={(value) => prefer({ language: value })} of={[['en', 'English'], ['zh', '中文']]} /></div>
    </main>
  )
}
