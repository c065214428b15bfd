import { isPetrelError, type ResponseOf } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type FormEvent, type ReactElement, useEffect, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, Choices, Field, Spinner } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { CountedField } from '../info/CountedField.js'
import { checkProfile, mostAbout, type ProfileDraft, type ProfileField, refusal } from './profileDraft.js'

type Account = ResponseOf<'petrel.v1.AccountService/GetAccount'>
type Seen = NonNullable<Account['visibility']>[string]
type Wrong = Readonly<Partial<Record<ProfileField, string>>>


/** The dialog in which the person changes what others see of them. */
export function ProfileDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const { profiles } = useSession()
  const [account, setAccount] = useState<Account | undefined>(undefined)
  const [failed, setFailed] = useState<string | undefined>(undefined)
  useEffect(() => {
    client.call('petrel.v1.AccountService/GetAccount', {}).then((a) => {
      profiles.learn(a)
      setAccount(a)
    }, (why: unknown) => setFailed(thrownText(why, t)))
  }, [client, profiles, t])
  return account
    ? <Form account={account} onClose={onClose} />
    : <Dialog title={t('editProfile')} closeLabel={t('close')} onClose={onClose}><div className="dialog-body">{failed ? <p className="field-error" role="alert">{failed}</p> : <Spinner label={t('loading')} />}</div></Dialog>
}

function Form({ account, onClose }: { readonly account: Account; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const { profiles } = useSession()
  const [stored, setStored] = useState(account)
  const [draft, setDraft] = useState<ProfileDraft>({ displayName: account.displayName ?? '', about: account.about ?? '', handle: account.handle ?? '' })
  const [seen, setSeen] = useState({ about: seenOf(account, 'about'), handle: seenOf(account, 'handle') })
  const [wrong, setWrong] = useState<Wrong>({})
  const [locked, setLocked] = useState<ReadonlySet<ProfileField>>(new Set()) // only the back end changes them
  const [busy, setBusy] = useState(false)
  const change = (field: ProfileField, text: string): void => {
    setDraft({ ...draft, [field]: text })
    setWrong({ ...wrong, [field]: undefined })
  }

  /** Changes one field after the other, so that a refusal stands at the field that it is about. */
  const save = async (e: FormEvent): Promise<void> => {
    e.preventDefault()
    const now: Record<string, string> = {}
    const lock = new Set(locked)
    setBusy(true)
    let is = stored
    for (const field of ['displayName', 'about', 'handle'] as const) {
      const text = draft[field].trim()
      const wrongText = text === (is[field] ?? '') ? undefined : checkProfile(field, text)
      const moved = field !== 'displayName' && seen[field] !== seenOf(is, field)
      if (wrongText) now[field] = t(wrongText)
      else if (text !== (is[field] ?? '') || moved) {
        try {
          is = await client.call('petrel.v1.AccountService/UpdateAccount', {
            ...(text === (is[field] ?? '') ? {} : { [field]: text }), ...(moved ? { visibility: { [field]: seen[field] } } : {}),
          })
          profiles.learn(is)
        } catch (why) {
          const code = isPetrelError(why) ? why.code : ''
          if (code === 'forbidden') {
            lock.add(field)
            setDraft((d) => ({ ...d, [field]: stored[field] ?? '' }))
            if (field !== 'displayName') setSeen((s) => ({ ...s, [field]: seenOf(stored, field) }))
          } else {
            const text = refusal[field][code]
            now[field] = text ? t(text) : thrownText(why, t)
          }
        }
      }
    }
    setStored(is)
    setLocked(lock)
    setWrong(now)
    setBusy(false)
    if (Object.keys(now).length === 0 && lock.size === locked.size) onClose()
  }

  const field = (name: ProfileField, hint?: string): { label: string; value: string; hint: string | undefined; error: string | undefined; disabled: boolean; onChange: (e: { target: { value: string } }) => void } => ({
    label: name === 'handle' ? t('profileHandle') : t(name), value: draft[name], hint: locked.has(name) ? t('onlyBackEnd') : hint, error: wrong[name], disabled: locked.has(name), onChange: (e) => change(name, name === 'handle' ? e.target.value.replace(/^@/, '').toLowerCase() : e.target.value),
  })
  const choice = (name: 'about' | 'handle'): ReactElement => <Choices titled label={t(name === 'about' ? 'whoSeesAbout' : 'whoSeesHandle')} value={seen[name]} of={[['VISIBILITY_EVERYBODY', t('everybody')], ['VISIBILITY_CONTACTS', t('contacts')], ['VISIBILITY_NOBODY', t('onlyMe')]]} onChange={(to) => setSeen({ ...seen, [name]: to })} />
  return (
    <Dialog title={t('editProfile')} closeLabel={t('close')} onClose={onClose} foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look="primary" type="submit" form="profile" disabled={busy}>{t('save')}</Button></>}>
      <form id="profile" className="dialog-body profile-form" noValidate onSubmit={(e) => void save(e)}>
        <Field {...field('displayName', t('displayNameHint'))} maxLength={64} autoComplete="name" />
        <div>
          <CountedField {...field('about')} most={mostAbout} />
          {choice('about')}
        </div>
        <div>
          <Field {...field('handle', t('profileHandleHint', { user: account.user ?? '' }))} autoComplete="off" autoCapitalize="none" spellCheck={false} />
          {choice('handle')}
        </div>
      </form>
    </Dialog>
  )
}

function seenOf({ visibility }: Account, field: ProfileField): Seen {
  return visibility?.[field] ?? 'VISIBILITY_EVERYBODY'
}
