import { type ReactElement, useState } from 'react'
import { Button, Field } from '../../ui/index.js'
import { call, useCall } from '../call.js'
import { time } from '../formats.js'
import { useTranslation } from '../i18n/index.js'
import { Change, Once } from '../parts/Change.js'
import { Mark } from '../parts/Facts.js'
import { Scopes } from '../parts/Scopes.js'
import { type Column, Listing } from '../parts/Table.js'
import type { EnrollmentCodeJson, OperatorInfoJson } from '../wire/types_gen.js'

type Asking = '' | 'create' | { readonly what: 'scopes' | 'disabled' | 'reset' | 'remove'; readonly of: OperatorInfoJson }

/** The operators, and the scopes of each. */
export function Operators(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error, again } = useCall('AdminService/ListOperators', {})
  const [asking, setAsking] = useState<Asking>('')
  const state = (o: OperatorInfoJson): ReactElement => o.disabled ? <Mark look="bad">{t('disabled')}</Mark> : o.enrolled ? <Mark look="good">{t('enrolled')}</Mark> : <Mark look="warn">{t('invited')}</Mark>
  const columns: readonly Column<OperatorInfoJson>[] = [
    { title: t('name'), wide: true, cell: (o) => o.name, text: (o) => o.name ?? '' }, { title: t('scopes'), cell: (o) => (o.scopes ?? []).join(', '), text: (o) => (o.scopes ?? []).join(' ') },
    { title: t('state'), cell: state, text: (o) => o.disabled ? 'disabled' : o.enrolled ? 'enrolled' : 'invited' },
    { title: t('lastLogin'), cell: (o) => time(o.loggedInMs, tr), text: (o) => Number(o.loggedInMs ?? 0) > 0 ? new Date(Number(o.loggedInMs)).toISOString() : '' },
    { title: t('sessions'), end: true, cell: (o) => o.sessions ?? 0, text: (o) => o.sessions ?? 0 },
    { title: t('action'), action: true, cell: (of) => (
      <span className="actions">
        <Button small onClick={() => setAsking({ what: 'scopes', of })}>{t('scopes')}</Button>
        <Button small onClick={() => setAsking({ what: 'disabled', of })}>{t(of.disabled ? 'enable' : 'disable')}</Button>
        <Button small onClick={() => setAsking({ what: 'reset', of })}>{t('reset')}</Button>
        <Button small look="danger" onClick={() => setAsking({ what: 'remove', of })}>{t('remove')}</Button>
      </span>
    ) },
  ]
  const close = (): void => {
    setAsking('')
    again()
  }
  const list = { rows: answer?.operators ?? [], next: '' }
  return (
    <div className="page">
      <header className="page-head"><h1>{t('operators')}</h1><Button look="primary" small onClick={() => setAsking('create')}>{t('inviteOperator')}</Button></header>
      <p className="quiet">{t('operatorsText')}</p>
      <Listing name="operators" label={t('operators')} columns={columns} keyOf={(o) => o.name ?? ''} empty={t('noOperators')} page={answer && list} error={error} load={async () => list} />
      {asking !== '' && <Ask asking={asking} onClose={close} />}
    </div>
  )
}

function Ask({ asking, onClose }: { readonly asking: Exclude<Asking, ''>; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const of: OperatorInfoJson = asking === 'create' ? {} : asking.of
  const before = of.scopes ?? []
  const [name, setName] = useState('')
  const [scopes, setScopes] = useState<readonly string[]>(before)
  const [code, setCode] = useState<EnrollmentCodeJson>()
  const who = of.name ?? name.trim()
  if (code) return <Once title={t('enrollLink', { name: who })} text={t('enrollLinkText')} secret={location.origin + (code.path ?? '')} onClose={onClose} />
  if (asking === 'create') {
    const ready = /^[a-z0-9._-]{1,64}$/.test(who) && scopes.length > 0
    return (
      <Change title={t('inviteOperator')} changes={ready ? [{ name: who, from: '–', to: scopes.join(', ') }] : []} ready={ready} action={t('invite')} done={t('doneCode')} run={async (requestId) => setCode(await call('AdminService/CreateOperator', { name: who, scopes, requestId }))} onClose={onClose} onDone={() => {}}>
        <Field label={t('operatorName')} hint={t('operatorNameHint')} autoComplete="off" autoCapitalize="none" spellCheck={false} value={name} onChange={(e) => setName(e.target.value.toLowerCase())} />
        <Scopes value={scopes} onChange={setScopes} />
      </Change>
    )
  }
  switch (asking.what) {
    case 'scopes': return <Change title={t('scopesTitle', { name: who })} text={t('sessionsEnd')} changes={[{ name: t('scopes'), from: before.join(', '), to: scopes.join(', ') }]} ready={scopes.length > 0 && scopes.toSorted().join() !== before.toSorted().join()} action={t('change')} done={t('doneChanged')} run={(requestId) => call('AdminService/ChangeOperator', { name: who, scopes, disabled: of.disabled ?? false, requestId })} onClose={onClose}><Scopes value={scopes} onChange={setScopes} /></Change>
    case 'disabled': return <Change danger={!of.disabled} title={t(of.disabled ? 'enableTitle' : 'disableTitle', { user: who })} text={t('sessionsEnd')} changes={[{ name: t('state'), from: t(of.disabled ? 'disabled' : 'enabled'), to: t(of.disabled ? 'enabled' : 'disabled') }]} action={t(of.disabled ? 'enable' : 'disable')} done={t('doneChanged')} run={(requestId) => call('AdminService/ChangeOperator', { name: who, scopes: [], disabled: !of.disabled, requestId })} onClose={onClose} />
    case 'reset': return <Change danger title={t('resetTitle', { name: who })} text={t('resetText')} changes={[{ name: t('passwordAndFactor'), from: of.enrolled ? t('present') : t('none'), to: t('none') }]} action={t('reset')} done={t('doneCode')} run={async (requestId) => setCode(await call('AdminService/ResetOperator', { name: who, requestId }))} onClose={onClose} onDone={() => {}} />
    case 'remove': return <Change danger title={t('removeOperatorTitle', { name: who })} text={t('sessionsEnd')} changes={[{ name: who, from: before.join(', '), to: t('removed') }]} action={t('remove')} done={t('doneChanged')} run={(requestId) => call('AdminService/RemoveOperator', { name: who, requestId })} onClose={onClose} />
  }
}
