import { type ReactElement, useState } from 'react'
import { Button, Field } from '../../ui/index.js'
import { addressOf, go, useAddress } from '../address.js'
import { call, useCall } from '../call.js'
import { time } from '../formats.js'
import { named, type Translation, useTranslation } from '../i18n/index.js'
import { Change, Once } from '../parts/Change.js'
import { Link, Mark } from '../parts/Facts.js'
import { Filter, Select } from '../parts/Filter.js'
import { type Column, Listing, type Page, useOrder } from '../parts/Table.js'
import { may } from '../session.js'
import type { ListUsersRequestJson, ListUsersResponseJson, UserInfoJson } from '../wire/types_gen.js'
import { User } from './User.js'

const pageRows = 50

/**
 * The search for users, by the beginning of the id or the display name. With an id in the address, the page of that
 * user.
 */
export function Users(): ReactElement {
  const { id } = useAddress()
  return id === '' ? <UserList /> : <User user={id} key={id} />
}

function columnsOf(tr: Translation, tenant: string): readonly Column<UserInfoJson>[] {
  const { t } = tr
  return [
    { title: t('userId'), order: '', cell: (u) => <Link page="users" id={u.user ?? ''} query={{ tenant }}>{u.user}</Link>, text: (u) => u.user ?? '' },
    { title: t('displayName'), order: 'name', wide: true, cell: (u) => u.displayName, text: (u) => u.displayName ?? '' },
    { title: t('state'), cell: (u) => u.disabled ? <Mark look="bad">{t('disabled')}</Mark> : u.online ? <Mark look="good">{t('online')}</Mark> : <Mark look="quiet">{t('offline')}</Mark>, text: (u) => u.disabled ? 'disabled' : u.online ? 'online' : 'offline' },
    { title: t('madeBy'), cell: (u) => named(tr, 'source', u.source ?? ''), text: (u) => u.source ?? '' },
    { title: t('created'), cell: (u) => time(u.createdMs, tr), text: (u) => u.createdMs ? new Date(Number(u.createdMs)).toISOString() : '' },
  ]
}

function UserList(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { prefix = '', tenant = '', from = '' } = useAddress().query
  const order = useOrder()
  const [creating, setCreating] = useState(false)
  const byName = order.by === 'name'
  const request = (at: string, limit = pageRows): ListUsersRequestJson => ({
    tenant, limit, descending: order.down, ...byName ? { byName, namePrefix: prefix, ...at ? { token: at } : {} } : { prefix, ...at ? { after: at } : {} },
  })
  const pageOf = (a: ListUsersResponseJson): Page<UserInfoJson> => ({ rows: a.users ?? [], next: byName ? a.token ?? '' : a.more ? a.users?.at(-1)?.user ?? '' : '' })
  const { answer, error, again } = useCall('AdminService/ListUsers', request(from))
  return (
    <div className="page">
      <header className="page-head"><h1>{t('users')}</h1>{may('tokens') && <Button look="primary" small onClick={() => setCreating(true)}>{t('createUser')}</Button>}</header>
      <div className="filters">
        <Filter name="prefix" label={t(byName ? 'searchDisplayName' : 'searchUserId')} />
        <Select name="by" label={t('searchBy')} of={[['', t('byId')], ['name', t('byName')]]} />
        <Filter name="tenant" label={t('tenantFilter')} />
      </div>
      {byName && <p className="quiet">{t('namedOnly')}</p>}
      <Listing name="users" label={t('users')} order={order} columns={columnsOf(tr, tenant)} keyOf={(u) => u.user ?? ''} empty={t('noUsers')} page={answer && pageOf(answer)} error={error} load={async (at) => pageOf(await call('AdminService/ListUsers', request(at, 1000)))} />
      {creating && <Create tenant={tenant} onClose={() => { setCreating(false); again() }} />}
    </div>
  )
}

function Create({ tenant, onClose }: { readonly tenant: string; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const [user, setUser] = useState('')
  const [password, setPassword] = useState('')
  const [token, setToken] = useState('')
  const withPassword = may('users')
  const close = (): void => {
    onClose()
    go(addressOf('users', user.trim(), { tenant }))
  }
  if (token !== '') return <Once title={t('userCreated', { user: user.trim() })} text={t('tokenOnce')} secret={token} onClose={close} />
  const run = async (requestId: string): Promise<void> => {
    const made = await call('AdminService/CreateUsers', { tenant, users: [user.trim()] })
    if (password === '') setToken(made.tokens?.[0]?.token ?? '')
    else await call('AdminService/SetPassword', { tenant, user: user.trim(), password, requestId }) // the password revokes the token
  }
  return (
    <Change
      title={t('createUser')} action={t('create')} done={t('userCreated', { user: user.trim() })} ready={user.trim() !== ''} run={run} onClose={onClose} onDone={() => { if (password !== '') close() }}
      changes={user.trim() === '' ? [] : [{ name: t('userId'), from: '–', to: user.trim() }, { name: t('password'), from: '–', to: password === '' ? t('none') : t('asTyped') }]}
    >
      <Field label={t('userId')} autoComplete="off" autoCapitalize="none" spellCheck={false} value={user} onChange={(e) => setUser(e.target.value)} />
      {withPassword && <Field label={t('passwordOptional')} hint={t('passwordOptionalHint')} type="password" reveal={t('showTyped')} autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />}
    </Change>
  )
}
