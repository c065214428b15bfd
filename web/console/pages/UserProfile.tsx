import { type ReactElement, useState } from 'react'
import { Button, Field } from '../../ui/index.js'
import { call } from '../call.js'
import { useTranslation } from '../i18n/index.js'
import { Change, type Changed } from '../parts/Change.js'
import { Facts, Mark, Part } from '../parts/Facts.js'
import { may } from '../session.js'
import type { AccountJson } from '../wire/types_gen.js'

interface Props {
  readonly tenant: string
  readonly user: string
  readonly profile: AccountJson
  readonly onChanged: () => void
}

/** What others see of a user, and a dialog to change it. Fields that not everybody sees are shown as such. Spec: P-14.1, P-14.3. */
export function UserProfile({ tenant, user, profile, onChanged }: Props): ReactElement {
  const { t } = useTranslation()
  const [asking, setAsking] = useState(false)
  const seenBy = (field: string): ReactElement | undefined => {
    const seen = profile.visibility?.[field]
    return seen === 'VISIBILITY_NOBODY' || seen === 'VISIBILITY_CONTACTS' ? <> <Mark look="quiet">{t(seen === 'VISIBILITY_NOBODY' ? 'hiddenFromOthers' : 'forContacts')}</Mark></> : undefined
  }
  const fact = (title: string, field: string, value: string | undefined): readonly [string, ReactElement] => [title, (
    <>{value || '–'}{value && seenBy(field)}</>
  )]
  return (
    <Part title={t('profile')} actions={may('users') && <Button small onClick={() => setAsking(true)}>{t('changeProfile')}</Button>}>
      <Facts of={[
        fact(t('displayName'), '', profile.displayName), fact(t('handle'), 'handle', profile.handle), fact(t('about'), 'about', profile.about),
        ...namesOf(profile).map((name) => fact(name, `fields.${name}`, profile.fields?.[name])),
      ]} />
      {asking && <ChangeProfile tenant={tenant} user={user} profile={profile} onChanged={onChanged} onClose={() => setAsking(false)} />}
    </Part>
  )
}

function namesOf(profile: AccountJson): readonly string[] {
  return Object.keys(profile.fields ?? {}).sort()
}

function ChangeProfile({ tenant, user, profile, onChanged, onClose }: Props & { readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const [displayName, setDisplayName] = useState(profile.displayName ?? '')
  const [about, setAbout] = useState(profile.about ?? '')
  const [handle, setHandle] = useState(profile.handle ?? '')
  const [fields, setFields] = useState<Readonly<Record<string, string>>>(profile.fields ?? {})
  const [name, setName] = useState('')
  const [value, setValue] = useState('')
  const wanted = name === '' ? fields : { ...fields, [name]: value }
  const changed = Object.keys(wanted).filter((n) => (wanted[n] ?? '') !== (profile.fields?.[n] ?? '')).sort()
  const changes: Changed[] = []
  const compare = (title: string, from: string | undefined, to: string): void => {
    if ((from ?? '') !== to) changes.push({ name: title, from: from || '–', to: to || '–' })
  }
  compare(t('displayName'), profile.displayName, displayName)
  compare(t('handle'), profile.handle, handle)
  compare(t('about'), profile.about, about)
  for (const n of changed) compare(n, profile.fields?.[n], wanted[n] ?? '')
  const run = (): Promise<unknown> => call('AdminService/SetProfiles', { tenant, profiles: [{
    user, ...(displayName !== (profile.displayName ?? '') && { displayName }), ...(about !== (profile.about ?? '') && { about }), ...(handle !== (profile.handle ?? '') && { handle }),
    fields: Object.fromEntries(changed.map((n) => [n, wanted[n] ?? ''])),
  }] })
  return (
    <Change title={t('profileTitle', { user })} text={t('profileText')} changes={changes} ready={changes.length > 0} action={t('change')} done={t('doneChanged')} run={run} onClose={onClose} onDone={() => { onClose(); onChanged() }}>
      <Field label={t('displayName')} value={displayName} onChange={(e) => setDisplayName(e.target.value)} />
      <Field label={t('handle')} hint={t('handleHint')} autoCapitalize="none" spellCheck={false} value={handle} onChange={(e) => setHandle(e.target.value)} />
      <Field label={t('about')} hint={t('aboutHint')} value={about} onChange={(e) => setAbout(e.target.value)} />
      {namesOf(profile).map((n) => <Field key={n} label={n} value={fields[n] ?? ''} onChange={(e) => setFields({ ...fields, [n]: e.target.value })} />)}
      <Field label={t('fieldName')} hint={t('fieldNameHint')} autoCapitalize="none" spellCheck={false} value={name} onChange={(e) => setName(e.target.value)} />
      {name !== '' && <Field label={t('fieldValue')} value={value} onChange={(e) => setValue(e.target.value)} />}
    </Change>
  )
}
