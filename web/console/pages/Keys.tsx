import { type ReactElement, useState } from 'react'
import { Button, Field } from '../../ui/index.js'
import { call, useCall } from '../call.js'
import { time } from '../formats.js'
import { useTranslation } from '../i18n/index.js'
import { Change, Once } from '../parts/Change.js'
import { Scopes } from '../parts/Scopes.js'
import { type Column, Listing } from '../parts/Table.js'
import type { KeyInfoJson } from '../wire/types_gen.js'

/** The admin keys, which back ends and the command line use. */
export function Keys(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error, again } = useCall('AdminService/ListKeys', {})
  const [asking, setAsking] = useState<'' | 'create' | { readonly revoke: KeyInfoJson }>('')
  const columns: readonly Column<KeyInfoJson>[] = [
    { title: t('name'), wide: true, cell: (k) => k.name, text: (k) => k.name ?? '' }, { title: t('keyId'), cell: (k) => <code>{k.id}</code>, text: (k) => k.id ?? '' },
    { title: t('scopes'), cell: (k) => (k.scopes ?? []).join(', '), text: (k) => (k.scopes ?? []).join(' ') }, { title: t('tenant'), cell: (k) => k.tenant || t('allTenants'), text: (k) => k.tenant ?? '' },
    { title: t('created'), cell: (k) => time(k.createdMs, tr), text: (k) => k.createdMs ? new Date(Number(k.createdMs)).toISOString() : '' },
    { title: t('action'), action: true, cell: (k) => <Button small look="danger" onClick={() => setAsking({ revoke: k })}>{t('revoke')}</Button> },
  ]
  const close = (): void => {
    setAsking('')
    again()
  }
  const list = { rows: answer?.keys ?? [], next: '' }
  return (
    <div className="page">
      <header className="page-head"><h1>{t('keys')}</h1><Button look="primary" small onClick={() => setAsking('create')}>{t('createKey')}</Button></header>
      <p className="quiet">{t('keysText')}</p>
      <Listing name="keys" label={t('keys')} columns={columns} keyOf={(k) => k.id ?? ''} empty={t('noKeys')} page={answer && list} error={error} load={async () => list} />
      {asking === 'create' && <Create onClose={close} />}
      {typeof asking === 'object' && <Change danger title={t('revokeTitle', { name: asking.revoke.name ?? '' })} text={t('revokeText')} changes={[{ name: asking.revoke.name ?? '', from: (asking.revoke.scopes ?? []).join(', '), to: t('revoked') }]} action={t('revoke')} done={t('doneRevoked')} run={(requestId) => call('AdminService/RevokeKey', { id: asking.revoke.id ?? '', requestId })} onClose={close} />}
    </div>
  )
}

function Create({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const [name, setName] = useState('')
  const [tenant, setTenant] = useState('')
  const [scopes, setScopes] = useState<readonly string[]>([])
  const [key, setKey] = useState('')
  if (key !== '') return <Once title={t('createKey')} text={t('keyOnce')} secret={key} onClose={onClose} />
  const ready = name.trim() !== '' && scopes.length > 0
  return (
    <Change title={t('createKey')} changes={ready ? [{ name: name.trim(), from: '–', to: scopes.join(', ') }] : []} ready={ready} action={t('create')} done={t('doneKey')} run={async (requestId) => setKey((await call('AdminService/CreateKey', { name: name.trim(), tenant: tenant.trim(), scopes, requestId })).key ?? '')} onClose={onClose} onDone={() => {}}>
      <Field label={t('name')} maxLength={64} value={name} onChange={(e) => setName(e.target.value)} />
      <Scopes value={scopes} onChange={setScopes} />
      <Field label={t('onlyTenant')} hint={t('onlyTenantHint')} value={tenant} onChange={(e) => setTenant(e.target.value)} />
    </Change>
  )
}
