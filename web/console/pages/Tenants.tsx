import { type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, Choices, Field, Spinner, Switch } from '../../ui/index.js'
import { call, useCall } from '../call.js'
import { named, useTranslation } from '../i18n/index.js'
import { Change, type Changed, Once } from '../parts/Change.js'
import { Link } from '../parts/Facts.js'
import { Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import type { TenantSummaryJson } from '../wire/types_gen.js'

const registrations = ['REGISTRATION_UNSPECIFIED', 'REGISTRATION_OPEN', 'REGISTRATION_INVITATION', 'REGISTRATION_CLOSED'] as const
type Registration = typeof registrations[number]
const firstRules = ['FIRST_MESSAGES_UNSPECIFIED', 'FIRST_MESSAGES_OPEN', 'FIRST_MESSAGES_REQUEST', 'FIRST_MESSAGES_CLOSED'] as const
type FirstRule = typeof firstRules[number]
const dayS = 86_400
const manageable = ['display_name', 'about', 'handle', 'avatar', 'fields', 'contacts', 'account'] as const
const single = 'fields.' // before the name of one field of the application

/** The tenants: who may create an account in each, and which new user ids are accepted. */
export function Tenants(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error, again } = useCall('AdminService/ListTenants', {})
  const [asking, setAsking] = useState<{ readonly what: 'registration' | 'invite' | 'managed'; readonly of: TenantSummaryJson }>()
  const say = (n: number | undefined): string => named(tr, 'registration', registrations[n ?? 0] ?? '')
  const close = (): void => {
    setAsking(undefined)
    again()
  }
  return (
    <div className="page">
      <header className="page-head"><h1>{t('tenants')}</h1></header>
      <p className="quiet">{t('tenantsText')}</p>
      {error && <Trouble error={error} />}
      <Table label={t('tenants')} rows={answer?.tenants ?? []} keyOf={(x) => x.tenant ?? ''} empty={t('loading')} columns={[
        { title: t('tenant'), cell: (x) => <Link page="users" query={{ tenant: x.tenant === 'default' ? '' : x.tenant ?? '' }}>{x.tenant}</Link> },
        { title: t('registrationSet'), cell: (x) => say(x.registration) }, { title: t('registrationNow'), cell: (x) => say(x.effective) }, { title: t('newIds'), wide: true, cell: (x) => t(x.strictIds ? 'idsReadAsNoOther' : 'idsLookLikeNoOther') },
        { title: t('action'), action: true, cell: (x) => <><Button small onClick={() => setAsking({ what: 'registration', of: x })}>{t('change')}</Button><Button small onClick={() => setAsking({ what: 'invite', of: x })}>{t('invite')}</Button><Button small onClick={() => setAsking({ what: 'managed', of: x })}>{t('managed')}</Button></> },
      ]} />
      {asking?.what === 'registration' && <Register of={asking.of} onClose={close} />}
      {asking?.what === 'managed' && <Managed tenant={asking.of.tenant ?? ''} onClose={close} />}
      {asking?.what === 'invite' && <Invite tenant={asking.of.tenant ?? ''} onClose={close} />}
    </div>
  )
}

function Register({ of, onClose }: { readonly of: TenantSummaryJson; readonly onClose: () => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const before = registrations[of.registration ?? 0] ?? 'REGISTRATION_UNSPECIFIED'
  const [to, setTo] = useState<Registration>(before)
  const was = of.strictIds ?? false
  const [strict, setStrict] = useState(was)
  const ids = (isStrict: boolean): string => t(isStrict ? 'idsReadAsNoOther' : 'idsLookLikeNoOther')
  const changes: Changed[] = []
  if (to !== before) changes.push({ name: t('registrationSet'), from: named(tr, 'registration', before), to: named(tr, 'registration', to) })
  if (strict !== was) changes.push({ name: t('newIds'), from: ids(was), to: ids(strict) })
  return (
    <Change title={t('registrationTitle', { tenant: of.tenant ?? '' })} changes={changes} ready={changes.length > 0} action={t('change')} done={t('doneChanged')} run={(requestId) => call('AdminService/SetRegistration', { tenant: of.tenant ?? '', registration: to, ...(strict !== was && { strictIds: strict }), requestId })} onClose={onClose}>
      <Choices label={t('registrationSet')} value={to} of={registrations.map((r) => [r, named(tr, 'registration', r)] as const)} onChange={setTo} />
      <Switch on={strict} onChange={setStrict}>{t('strictIds')}</Switch>
    </Change>
  )
}

/** What users of a tenant do not change themselves, and what becomes of messages of strangers. Spec: P-14.6, P-14.11. */
function Managed({ tenant, onClose }: { readonly tenant: string; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const { answer, error } = useCall('AdminService/GetTenant', { tenant })
  if (answer) return <ChangeManaged tenant={tenant} before={answer.managed ?? []} rule={answer.firstMessages ?? 'FIRST_MESSAGES_UNSPECIFIED'} onClose={onClose} />
  return <Dialog title={t('managedTitle', { tenant })} closeLabel={t('close')} onClose={onClose} foot={<Button onClick={onClose}>{t('cancel')}</Button>}>{error ? <Trouble error={error} /> : <Spinner label={t('loading')} />}</Dialog>
}

function ChangeManaged({ tenant, before, rule, onClose }: { readonly tenant: string; readonly before: readonly string[]; readonly rule: FirstRule; readonly onClose: () => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [whole, setWhole] = useState<readonly string[]>(before.filter((f) => !f.startsWith(single)))
  const [names, setNames] = useState(before.filter((f) => f.startsWith(single)).map((f) => f.slice(single.length)).join(', '))
  const [first, setFirst] = useState<FirstRule>(rule)
  const managed = [...new Set([...whole, ...names.split(/[,，]/).map((n) => n.trim()).filter(Boolean).map((n) => single + n)])].sort()
  const say = (fields: readonly string[]): string => fields.map((f) => f.startsWith(single) ? f.slice(single.length) : named(tr, 'managed', f)).join(', ') || t('none')
  const isSame = say(managed) === say(before)
  const changes: Changed[] = isSame ? [] : [{ name: t('onlyApplication'), from: say(before), to: say(managed) }]
  if (first !== rule) changes.push({ name: t('firstMessages'), from: named(tr, 'first', rule), to: named(tr, 'first', first) })
  const run = async (requestId: string): Promise<void> => {
    if (!isSame) await call('AdminService/SetProfileRules', { tenant, managed, requestId })
    if (first !== rule) await call('AdminService/SetFirstMessageRule', { tenant, firstMessages: first, requestId })
  }
  return (
    <Change title={t('managedTitle', { tenant })} text={t('managedText')} changes={changes} ready={changes.length > 0} action={t('change')} done={t('doneChanged')} run={run} onClose={onClose}>
      {manageable.map((f) => <Switch key={f} on={whole.includes(f)} onChange={(on) => setWhole(on ? [...whole, f] : whole.filter((x) => x !== f))}>{named(tr, 'managed', f)}</Switch>)}
      <Field label={t('managedNames')} hint={t('managedNamesHint')} autoCapitalize="none" spellCheck={false} value={names} onChange={(e) => setNames(e.target.value)} />
      <Choices titled label={t('firstMessages')} value={first} of={firstRules.map((r) => [r, named(tr, 'first', r)] as const)} onChange={setFirst} />
      <p className="quiet">{t('firstMessagesText')}</p>
    </Change>
  )
}

function Invite({ tenant, onClose }: { readonly tenant: string; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const [uses, setUses] = useState('1')
  const [days, setDays] = useState('7')
  const [code, setCode] = useState('')
  if (code !== '') return <Once title={t('invite')} text={t('inviteOnce')} secret={code} onClose={onClose} />
  const ready = /^\d+$/.test(uses) && Number(uses) >= 1 && Number(uses) <= 10_000 && /^\d+$/.test(days) && Number(days) >= 1 && Number(days) <= 366
  const run = async (requestId: string): Promise<void> => setCode((await call('AdminService/CreateInvitation', { tenant, uses: Number(uses), ttlS: String(Number(days) * dayS), requestId })).code ?? '')
  return (
    <Change title={t('invite')} text={t('inviteText', { tenant })} changes={[{ name: t('inviteChange'), from: '–', to: t('inviteTo', { n: Number(uses) || 0, d: days }) }]} ready={ready} action={t('create')} done={t('doneCode')} run={run} onClose={onClose} onDone={() => {}}>
      <Field label={t('inviteUses')} inputMode="numeric" value={uses} onChange={(e) => setUses(e.target.value)} />
      <Field label={t('inviteDays')} inputMode="numeric" value={days} onChange={(e) => setDays(e.target.value)} />
    </Change>
  )
}
