import { type FormEvent, type ReactElement, type ReactNode, useEffect, useState } from 'react'
import { Button, Choices, Field, Logo, Spinner } from '../../ui/index.js'
import { call, CallError } from '../call.js'
import { useTranslation } from '../i18n/index.js'
import { Secret } from '../parts/Change.js'
import { Trouble } from '../parts/Trouble.js'
import { begin, isOver } from '../session.js'
import type { BeginEnrollmentResponseJson, EnrollResponseJson } from '../wire/types_gen.js'
import { Looks } from '../parts/Looks.js'

function Card({ title, children }: { readonly title: string; readonly children: ReactNode }): ReactElement {
  return (
    <main className="signin">
      <div className="signin-card">
        <Logo size={48} />
        <h1>{title}</h1>
        {children}
      </div>
      <Looks />
    </main>
  )
}

const digitsOnly = { inputMode: 'numeric', pattern: '[0-9]{6}', maxLength: 6, autoComplete: 'one-time-code' } as const

/** The log-in page of operators. The address stays, so that they get back to their page. */
export function SignIn(): ReactElement {
  const { t } = useTranslation()
  const [how, setHow] = useState<'person' | 'key'>('person')
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [digits, setDigits] = useState('')
  const [key, setKey] = useState('')
  const { busy, error, run } = useAttempt()
  const submit = (e: FormEvent): void => {
    e.preventDefault()
    void run(async () => begin(await call('OperatorService/LogIn', how === 'key' ? { key: key.trim() } : { name: name.trim(), password, digits })))
  }
  const ready = how === 'key' ? key.trim() !== '' : name.trim() !== '' && password !== '' && digits.length === 6
  return (
    <Card title={t('consoleTitle')}>
      {isOver() && <p className="quiet" role="status">{t('sessionOver')}</p>}
      <Choices label={t('logInWith')} value={how} of={[['person', t('withName')], ['key', t('withKey')]]} onChange={setHow} />
      <form onSubmit={submit}>
        {how === 'person' ? (
          <>
            <Field label={t('operatorName')} autoComplete="username" autoCapitalize="none" spellCheck={false} autoFocus value={name} onChange={(e) => setName(e.target.value)} />
            <Field label={t('password')} type="password" reveal={t('showTyped')} autoComplete="current-password" value={password} onChange={(e) => setPassword(e.target.value)} />
            <Field label={t('digits')} {...digitsOnly} value={digits} onChange={(e) => setDigits(e.target.value.replace(/\D/g, ''))} />
          </>
        ) : <Field label={t('adminKey')} type="password" reveal={t('showTyped')} autoComplete="off" autoFocus value={key} hint={t('adminKeyHint')} onChange={(e) => setKey(e.target.value)} />}
        {error && <Trouble error={error} />}
        <Button look="primary" wide type="submit" disabled={busy || !ready}>{busy ? t('working') : t('logIn')}</Button>
      </form>
    </Card>
  )
}

/** The page where a person becomes an operator: the first one by the setup link, others by an invitation. */
export function Enroll({ code, onDone }: { readonly code: string; readonly onDone: () => void }): ReactElement {
  const { t } = useTranslation()
  const [offer, setOffer] = useState<BeginEnrollmentResponseJson>()
  const [refused, setRefused] = useState<CallError>()
  const [made, setMade] = useState<EnrollResponseJson>()
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [digits, setDigits] = useState('')
  const { busy, error, run } = useAttempt()
  useEffect(() => {
    const stop = new AbortController()
    call('OperatorService/BeginEnrollment', { code }, stop.signal).then(setOffer, (e: unknown) => {
      if (!stop.signal.aborted) setRefused(e instanceof CallError ? e : new CallError('internal', String(e)))
    })
    return () => stop.abort()
  }, [code])
  const finish = (answer: EnrollResponseJson): void => {
    begin(answer.session ?? {})
    onDone()
  }
  const submit = (e: FormEvent): void => {
    e.preventDefault()
    void run(async () => {
      const answer = await call('OperatorService/Enroll', { code, name: offer?.name ?? name.trim(), password, secret: offer?.secret ?? '', digits })
      if (answer.adminKey) setMade(answer)
      else finish(answer)
    })
  }
  if (refused) return <Card title={t('enrollTitle')}><Trouble error={refused} /><p>{t('enrollClosed')}</p><Button wide onClick={onDone}>{t('toLogIn')}</Button></Card>
  if (!offer) return <Card title={t('enrollTitle')}><Spinner label={t('loading')} /></Card>
  if (made?.adminKey) {
    return (
      <Card title={t('keepKeyTitle')}>
        <p>{t('keepKeyText')}</p>
        <Secret secret={made.adminKey} />
        <Button look="primary" wide onClick={() => finish(made)}>{t('haveKept')}</Button>
      </Card>
    )
  }
  return (
    <Card title={offer.name ? t('welcomeName', { name: offer.name }) : t('enrollTitle')}>
      <p className="quiet">{offer.name ? t('enrollInvited', { scopes: (offer.scopes ?? []).join(', ') }) : t('enrollFirst')}</p>
      <form onSubmit={submit}>
        {!offer.name && <Field label={t('operatorName')} hint={t('operatorNameHint')} autoComplete="username" autoCapitalize="none" spellCheck={false} autoFocus pattern="[a-z0-9._\-]{1,64}" maxLength={64} value={name} onChange={(e) => setName(e.target.value.toLowerCase())} />}
        <Field label={t('newPassword')} type="password" reveal={t('showTyped')} autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />
        <div className="factor">
          <p>{t('factorText')}</p>
          {offer.secretPng && <img src={`data:image/png;base64,${offer.secretPng}`} alt={t('factorCode')} width="180" height="180" />}
          <p className="quiet">{t('factorByHand')}</p>
          <Secret secret={offer.secret ?? ''} />
        </div>
        <Field label={t('digits')} {...digitsOnly} value={digits} onChange={(e) => setDigits(e.target.value.replace(/\D/g, ''))} />
        {error && <Trouble error={error} />}
        <Button look="primary" wide type="submit" disabled={busy || (!offer.name && name.trim() === '') || password === '' || digits.length !== 6}>{busy ? t('working') : t('enroll')}</Button>
      </form>
    </Card>
  )
}

/** Returns `run`, which runs an attempt, and its state: whether it is busy, and the error of the last attempt. */
function useAttempt(): { readonly busy: boolean; readonly error: CallError | undefined; readonly run: (what: () => Promise<void>) => Promise<void> } {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<CallError>()
  const run = async (what: () => Promise<void>): Promise<void> => {
    setBusy(true)
    setError(undefined)
    try {
      await what()
    } catch (e) {
      setError(e instanceof CallError ? e : new CallError('internal', String(e)))
    } finally {
      setBusy(false)
    }
  }
  return { busy, error, run }
}
