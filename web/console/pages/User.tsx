import { type ReactElement, useState } from 'react'
import { Avatar, Button, Field, Spinner } from '../../ui/index.js'
import { useAddress } from '../address.js'
import { call, useCall } from '../call.js'
import { bytes, taken, time } from '../formats.js'
import { named, useTranslation } from '../i18n/index.js'
import { Change } from '../parts/Change.js'
import { Facts, Link, Mark, Part } from '../parts/Facts.js'
import { Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import { may } from '../session.js'
import type { ConvStateJson, DeviceJson, SessionInfoJson, UserInfoJson } from '../wire/types_gen.js'
import { MuteTime, untilIn } from './Reports.js'
import { RefusalTable } from './Refusals.js'
import { UserContacts } from './UserContacts.js'
import { UserProfile } from './UserProfile.js'

const lookMs = 5000 // between two calls for the sessions, and for the reason why the user is not connected

type Asking = '' | 'disable' | 'enable' | 'mute' | 'unmute' | 'restore' | 'logOutAll' | 'password' | { readonly device: DeviceJson }

/** One user: the sessions, the reason why there is none, and the actions of an operator. */
export function User({ user }: { readonly user: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { tenant = '' } = useAddress().query
  const info = useCall('AdminService/GetUser', { tenant, user })
  const sessions = useCall('AdminService/ListSessions', { tenant, user }, lookMs)
  const [asking, setAsking] = useState<Asking>('')
  const u = info.answer
  const close = (): void => {
    setAsking('')
    info.again()
    sessions.again()
  }
  return (
    <div className="page">
      <p><Link page="users" query={{ tenant }}>← {t('users')}</Link></p>
      {info.error && <Trouble error={info.error} />}
      {!u && !info.error && <Spinner label={t('loading')} />}
      {u && (
        <>
          <header className="page-head">
            <Avatar id={user} name={u.displayName || user} size={44} />
            <div><h1>{u.displayName || user}</h1><code>{user}</code></div>
            <span className="space" />
            {may('tokens') && <Button small onClick={() => setAsking('logOutAll')}>{t('logOutAll')}</Button>}
            <Button small onClick={() => setAsking('password')}>{t('setPassword')}</Button>
            {u.leavingMs && <Button small onClick={() => setAsking('restore')}>{t('restore')}</Button>}
            <Button small onClick={() => setAsking(isMuted(u) ? 'unmute' : 'mute')}>{t(isMuted(u) ? 'unmute' : 'mute')}</Button>
            {u.disabled ? <Button small onClick={() => setAsking('enable')}>{t('enable')}</Button> : <Button small look="danger" onClick={() => setAsking('disable')}>{t('disable')}</Button>}
          </header>
          <Facts of={[
            [t('state'), u.disabled ? <Mark look="bad">{t('disabled')}</Mark> : u.leavingMs ? <Mark look="bad">{t('deletedSince', { time: time(u.leavingMs, tr) })}</Mark> : u.online ? <Mark look="good">{t('online')}</Mark> : <Mark look="quiet">{t('offline')}</Mark>],
            [t('created'), time(u.createdMs, tr)], [t('madeBy'), [u.source ?? '', ...u.linked ?? []].filter(Boolean).map((s) => named(tr, 'source', s)).join(', ') || '–'], [t('password'), u.hasPassword ? t('yes') : t('none')], [t('takenBytes'), taken(u, tr)],
            ...isMuted(u) ? [[t('mutedUntil'), time(u.mutedUntilMs, tr)] as const] : [],
          ]} />
          <UserProfile tenant={tenant} user={user} profile={u.profile ?? {}} onChanged={info.again} />
          {may('users') && <UserContacts tenant={tenant} user={user} />}
          <WhyNot tenant={tenant} user={user} />
          <Sessions sessions={sessions.answer && (sessions.answer.sessions ?? [])} silent={sessions.answer?.silent ?? []} />
          {sessions.error && <Trouble error={sessions.error} />}
          <Devices info={u} onRevoke={(device) => setAsking({ device })} />
          {may('conversations') && <Conversations tenant={tenant} user={user} />}
          <Ask asking={asking} info={u} tenant={tenant} user={user} onClose={close} />
        </>
      )}
    </div>
  )
}

const isMuted = (u: UserInfoJson): boolean => Number(u.mutedUntilMs ?? 0) > Date.now()

/** Shows whether this user is connected, and if not, why. It is refreshed every 5 s. */
export function WhyNot({ tenant, user }: { readonly tenant: string; readonly user: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error } = useCall('AdminService/TraceUser', { tenant, user }, lookMs)
  if (error) return <Trouble error={error} />
  if (!answer) return <></>
  const outcome = answer.outcome?.slice('TRACE_USER_OUTCOME_'.length) ?? ''
  const look = outcome === 'CONNECTED' ? 'good' : outcome === 'AWAY' ? 'quiet' : 'bad'
  return (
    <Part title={t(outcome === 'CONNECTED' ? 'connection' : 'whyNotConnected')}>
      <p className="outcome"><Mark look={look}>{named(tr, 'userOutcome', outcome)}</Mark> <span>{named(tr, 'userWhy', outcome)}</span></p>
      <Facts of={[
        [t('lastSeen'), time(answer.lastSeenMs, tr)], [t('devices'), answer.devices ?? 0], [t('revokedDevices'), answer.revokedDevices ?? 0],
        [t('connectionsLimit'), Number(answer.connectionsLimit ?? 0) < 0 ? t('noLimit') : answer.connectionsLimit ?? '–'],
        ...(answer.silent ?? []).length > 0 ? [[t('silentNodes'), answer.silent?.join(', ')] as const] : [],
      ]} />
      {(answer.refusals ?? []).length > 0 && <RefusalTable refusals={answer.refusals ?? []} />}
    </Part>
  )
}

function Sessions({ sessions, silent }: { readonly sessions: readonly SessionInfoJson[] | undefined; readonly silent: readonly string[] }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const state = (s: SessionInfoJson): string => [s.lagged && t('lagged'), s.held && t('held'), s.focused && t('focused')].filter(Boolean).join(', ')
  return (
    <Part title={t('sessions')}>
      {silent.length > 0 && <p className="trouble">{t('silentNodesText', { nodes: silent.join(', ') })}</p>}
      <Table label={t('sessions')} rows={sessions ?? []} keyOf={(s) => `${s.node} ${s.device} ${s.address}`} empty={sessions ? t('noSessions') : t('loading')} columns={[
        { title: t('node'), cell: (s) => s.node }, { title: t('device'), cell: (s) => s.device || t('noDevice') }, { title: t('address'), cell: (s) => s.address },
        { title: t('pending'), end: true, cell: (s) => bytes(s.pendingBytes, tr) }, { title: t('state'), wide: true, cell: state },
      ]} />
    </Part>
  )
}

function Devices({ info, onRevoke }: { readonly info: UserInfoJson; readonly onRevoke: (d: DeviceJson) => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  return (
    <Part title={t('devices')}>
      <Table label={t('devices')} rows={info.devices ?? []} keyOf={(d) => d.id ?? ''} empty={t('noDevices')} columns={[
        { title: t('device'), cell: (d) => <span title={d.id}>{d.name || d.id}</span> }, { title: t('kind'), cell: (d) => [d.kind, d.client].filter(Boolean).join(', ') },
        { title: t('loginTime'), cell: (d) => time(d.loginMs, tr) },
        { title: t('state'), cell: (d) => d.revoked ? <Mark look="bad">{t('loggedOut')}</Mark> : d.sessions ? <Mark look="good">{t('online')}</Mark> : <Mark look="quiet">{t('offline')}</Mark> },
        { title: t('action'), action: true, cell: (d) => d.revoked ? null : <Button small look="danger" onClick={() => onRevoke(d)}>{t('logOut')}</Button> },
      ]} />
    </Part>
  )
}

function Conversations({ tenant, user }: { readonly tenant: string; readonly user: string }): ReactElement {
  const { t } = useTranslation()
  const [token, setToken] = useState('')
  const { answer, error } = useCall('AdminService/ListUserConversations', { tenant, user, ...(token ? { token } : {}) })
  const rows: readonly ConvStateJson[] = answer?.convs ?? []
  return (
    <Part title={t('conversations')} actions={<>{token !== '' && <Button small onClick={() => setToken('')}>{t('firstPage')}</Button>}{answer?.token && <Button small onClick={() => setToken(answer.token ?? '')}>{t('nextPage')}</Button>}</>}>
      {error && <Trouble error={error} />}
      <Table label={t('conversations')} rows={rows} keyOf={(c) => c.conv ?? ''} empty={answer ? t('noConversations') : t('loading')} columns={[
        { title: t('conversation'), cell: (c) => <Link page="conversations" id={c.conv ?? ''} query={{ tenant }}>{c.title || c.peer || c.conv}</Link> },
        { title: t('head'), end: true, cell: (c) => c.head ?? 0 }, { title: t('deliveredTo'), end: true, cell: (c) => c.delivered ?? 0 }, { title: t('readTo'), end: true, cell: (c) => c.read ?? 0 },
        { title: t('state'), wide: true, cell: (c) => c.left ? t('hasLeft') : '' },
      ]} />
    </Part>
  )
}

function Ask({ asking, info, tenant, user, onClose }: { readonly asking: Asking; readonly info: UserInfoJson; readonly tenant: string; readonly user: string; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const [password, setPassword] = useState('')
  const [hours, setHours] = useState(24)
  const devices = (info.devices ?? []).filter((d) => !d.revoked).length
  const out = { name: t('devices'), from: t('loggedInCount', { n: devices }), to: t('loggedInCount', { n: 0 }) }
  if (typeof asking === 'object') {
    const d = asking.device
    return <Change danger title={t('logOutDeviceTitle', { device: d.name || d.id || '' })} text={t('logOutDeviceText')} changes={[{ name: d.name || d.id || '', from: t('loggedIn'), to: t('loggedOut') }]} action={t('logOut')} done={t('doneLoggedOut')} run={(requestId) => call('AdminService/RevokeDevice', { tenant, user, device: d.id ?? '', requestId })} onClose={onClose} />
  }
  switch (asking) {
    case 'disable': return <Change danger title={t('disableTitle', { user })} text={t('disableText')} changes={[{ name: t('state'), from: t('enabled'), to: t('disabled') }, out]} action={t('disable')} done={t('doneDisabled', { user })} run={(requestId) => call('AdminService/DisableUser', { tenant, user, requestId })} onClose={onClose} />
    case 'enable': return <Change title={t('enableTitle', { user })} text={t('enableText')} changes={[{ name: t('state'), from: t('disabled'), to: t('enabled') }]} action={t('enable')} done={t('doneEnabled', { user })} run={(requestId) => call('AdminService/EnableUser', { tenant, user, requestId })} onClose={onClose} />
    case 'mute': return <Change danger title={t('muteTitle', { user })} text={t('muteText')} changes={[{ name: user, from: t('mayWrite'), to: t('muted') }]} action={t('mute')} done={t('doneChanged')} run={(requestId) => call('AdminService/MuteUser', { tenant, user, untilMs: untilIn(hours), requestId })} onClose={onClose}><MuteTime hours={hours} onChange={setHours} /></Change>
    case 'unmute': return <Change title={t('unmuteTitle', { user })} changes={[{ name: user, from: t('muted'), to: t('mayWrite') }]} action={t('unmute')} done={t('doneChanged')} run={(requestId) => call('AdminService/MuteUser', { tenant, user, untilMs: '0', requestId })} onClose={onClose} />
    case 'restore': return <Change title={t('restoreTitle', { user })} text={t('restoreText')} changes={[{ name: user, from: t('deleted'), to: t('enabled') }]} action={t('restore')} done={t('doneChanged')} run={(requestId) => call('AdminService/RestoreUser', { tenant, user, requestId })} onClose={onClose} />
    case 'logOutAll': return <Change danger title={t('logOutAllTitle', { user })} text={t('logOutAllText')} changes={[out]} action={t('logOutAll')} done={t('doneLoggedOut')} run={() => call('AdminService/RevokeTokens', { tenant, user })} onClose={onClose} />
    case 'password': return (
      <Change danger title={t('setPasswordTitle', { user })} text={t('setPasswordText')} changes={[{ name: t('password'), from: info.hasPassword ? t('present') : t('none'), to: t('asTyped') }, out]} action={t('setPassword')} done={t('donePassword')} ready={password !== ''} run={(requestId) => call('AdminService/SetPassword', { tenant, user, password, requestId })} onClose={() => { setPassword(''); onClose() }}>
        <Field label={t('newPassword')} type="password" reveal={t('showTyped')} autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />
      </Change>
    )
    default: return <></>
  }
}
