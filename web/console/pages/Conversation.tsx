import { type ReactElement, useState } from 'react'
import { Button, Field, Spinner } from '../../ui/index.js'
import { useAddress } from '../address.js'
import { call, CallError, useCall } from '../call.js'
import { number, time } from '../formats.js'
import { named, type Translation, useTranslation } from '../i18n/index.js'
import { Change } from '../parts/Change.js'
import { Facts, Link, Mark, Part } from '../parts/Facts.js'
import { Folded } from '../parts/Folded.js'
import { Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import { may } from '../session.js'
import type { ConversationInfoJson, HistoryPageJson, MemberRefJson, MessageJson, RoleJson } from '../wire/types_gen.js'

type Asking = '' | 'freeze' | 'rename' | 'dissolve' | 'add' | { readonly remove: MemberRefJson } | { readonly role: MemberRefJson }

const roles: readonly RoleJson[] = ['ROLE_MEMBER', 'ROLE_ADMIN', 'ROLE_OWNER']

/** One conversation: its size, its members, and, after a reason was given, its messages. */
export function Conversation({ conv }: { readonly conv: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { tenant = '' } = useAddress().query
  const { answer: c, error, again } = useCall('AdminService/GetConversation', { tenant, conv }, 5000)
  const [asking, setAsking] = useState<Asking>('')
  const [turn, setTurn] = useState(0)
  const close = (): void => {
    setAsking('')
    setTurn(turn + 1)
    again()
  }
  const isGroup = c?.kind === 'CONV_KIND_GROUP' && !c.dissolved && !c.unknown
  return (
    <div className="page">
      <p><Link page="conversations" query={{ tenant }}>← {t('conversations')}</Link></p>
      {error && <Trouble error={error} />}
      {!c && !error && <Spinner label={t('loading')} />}
      {c && (
        <>
          <header className="page-head">
            <div><h1>{c.title || (c.users ?? []).join(' – ') || conv}</h1><code>{conv}</code></div>
            <span className="space" />
            {isGroup && <Button small onClick={() => setAsking('rename')}>{t('rename')}</Button>}
            {!c.dissolved && !c.unknown && <Button small onClick={() => setAsking('freeze')}>{t(c.frozen ? 'thaw' : 'freeze')}</Button>}
            {isGroup && <Button small look="danger" onClick={() => setAsking('dissolve')}>{t('dissolve')}</Button>}
          </header>
          {c.unknown && <p className="trouble">{t('unknownStateText', { node: c.owner || '–', code: named(tr, 'error', c.unknown) })}</p>}
          <Facts of={[
            [t('state'), stateOf(c, tr)], [t('kind'), named(tr, 'kind', c.kind ?? '')], [t('members'), number(c.members ?? 0, tr)], [t('head'), number(Number(c.head ?? 0), tr)],
            [t('perMinute'), (c.perMinute ?? 0) >= 1000 ? '≥ 1000' : number(c.perMinute ?? 0, tr)], [t('lastEntry'), time(c.lastMs, tr)], [t('created'), time(c.createdMs, tr)],
            [t('owner'), c.owner || '–'], [t('partition'), c.partition ?? 0], ...c.key ? [[t('keyOfApplication'), c.key] as const] : [],
          ]} />
          <Members key={turn} tenant={tenant} conv={conv} changeable={isGroup} onAsk={setAsking} />
          {may('messages') && <History tenant={tenant} conv={conv} />}
          {asking !== '' && <Ask asking={asking} c={c} tenant={tenant} conv={conv} onClose={close} />}
        </>
      )}
    </div>
  )
}

function Members({ tenant, conv, changeable, onAsk }: { readonly tenant: string; readonly conv: string; readonly changeable: boolean; readonly onAsk: (a: Asking) => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [after, setAfter] = useState('')
  const { answer, error } = useCall('AdminService/ListMembers', { tenant, conv, after, limit: 50 })
  const rows = answer?.members ?? []
  return (
    <Part title={t('members')} actions={<>{changeable && <Button small onClick={() => onAsk('add')}>{t('addMember')}</Button>}{after !== '' && <Button small onClick={() => setAfter('')}>{t('firstPage')}</Button>}{answer?.more && <Button small onClick={() => setAfter(rows.at(-1)?.user ?? '')}>{t('nextPage')}</Button>}</>}>
      {error && <Trouble error={error} />}
      <Table label={t('members')} rows={rows} keyOf={(m) => m.user ?? ''} empty={answer ? t('noMembers') : t('loading')} columns={[
        { title: t('user'), wide: true, cell: (m) => <Link page="users" id={m.user ?? ''} query={{ tenant }}>{m.user}</Link> },
        { title: t('role'), cell: (m) => named(tr, 'role', m.role ?? '') },
        ...changeable ? [{ title: t('action'), action: true, cell: (m: MemberRefJson) => <><Button small onClick={() => onAsk({ role: m })}>{t('changeRole')}</Button><Button small look="danger" onClick={() => onAsk({ remove: m })}>{t('remove')}</Button></> }] : [],
      ]} />
    </Part>
  )
}

function Ask({ asking, c, tenant, conv, onClose }: { readonly asking: Exclude<Asking, ''>; readonly c: ConversationInfoJson; readonly tenant: string; readonly conv: string; readonly onClose: () => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [text, setText] = useState(asking === 'rename' ? c.title ?? '' : '')
  const [role, setRole] = useState<RoleJson>(typeof asking === 'object' && 'role' in asking ? asking.role.role ?? 'ROLE_MEMBER' : 'ROLE_MEMBER')
  const title = c.title || conv
  const roleField = <label className="field"><span className="field-label">{t('role')}</span><select className="field-input" value={role} onChange={(e) => setRole(e.target.value as RoleJson)}>{roles.map((r) => <option key={r} value={r}>{named(tr, 'role', r)}</option>)}</select></label>
  if (typeof asking === 'object' && 'remove' in asking) {
    const user = asking.remove.user ?? ''
    return <Change danger title={t('removeTitle', { user, title })} changes={[{ name: user, from: named(tr, 'role', asking.remove.role ?? ''), to: t('noMember') }]} action={t('remove')} done={t('doneChanged')} run={(requestId) => call('AdminService/ChangeMembers', { tenant, conv, change: { removed: [user] }, requestId })} onClose={onClose} />
  }
  if (typeof asking === 'object') {
    const { user = '', role: before = 'ROLE_MEMBER' } = asking.role
    return <Change title={t('roleTitle', { user })} changes={[{ name: user, from: named(tr, 'role', before), to: named(tr, 'role', role) }]} ready={role !== before} action={t('changeRole')} done={t('doneChanged')} run={(requestId) => call('AdminService/ChangeMembers', { tenant, conv, change: { roles: [{ user, role }] }, requestId })} onClose={onClose}>{roleField}</Change>
  }
  switch (asking) {
    case 'freeze': return <Change danger={!c.frozen} title={t(c.frozen ? 'thawTitle' : 'freezeTitle', { title })} text={t(c.frozen ? 'thawText' : 'freezeText')} changes={[{ name: t('state'), from: t(c.frozen ? 'frozen' : 'open'), to: t(c.frozen ? 'open' : 'frozen') }]} action={t(c.frozen ? 'thaw' : 'freeze')} done={t(c.frozen ? 'doneThawed' : 'doneFrozen')} run={(requestId) => call('AdminService/FreezeConversation', { tenant, conv, frozen: !c.frozen, requestId })} onClose={onClose} />
    case 'dissolve': return <Change danger title={t('dissolveTitle', { title })} text={t('dissolveText')} changes={[{ name: t('members'), from: number(c.members ?? 0, tr), to: '0' }]} action={t('dissolve')} done={t('doneChanged')} run={(requestId) => call('AdminService/DissolveGroup', { tenant, conv, requestId })} onClose={onClose} />
    case 'rename': return <Change title={t('renameTitle', { title })} changes={[{ name: t('groupTitle'), from: c.title ?? '', to: text }]} ready={text.trim() !== '' && text !== c.title} action={t('rename')} done={t('doneChanged')} run={(requestId) => call('AdminService/RenameGroup', { tenant, conv, title: text, requestId })} onClose={onClose}><Field label={t('groupTitle')} value={text} onChange={(e) => setText(e.target.value)} /></Change>
    case 'add': return <Change title={t('addMember')} changes={text.trim() === '' ? [] : [{ name: text.trim(), from: t('noMember'), to: named(tr, 'role', role) }]} ready={text.trim() !== ''} action={t('addMember')} done={t('doneChanged')} run={(requestId) => call('AdminService/ChangeMembers', { tenant, conv, change: { added: [{ user: text.trim(), role }] }, requestId })} onClose={onClose}><Field label={t('userId')} autoCapitalize="none" spellCheck={false} value={text} onChange={(e) => setText(e.target.value)} />{roleField}</Change>
  }
}

const most = 200 // the most bytes of a reason

/** The messages of a conversation. The operator has to give a reason, which the audit log keeps. */
function History({ tenant, conv }: { readonly tenant: string; readonly conv: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [asking, setAsking] = useState(false)
  const [reason, setReason] = useState('')
  const [page, setPage] = useState<HistoryPageJson>()
  const [error, setError] = useState<CallError>()
  const read = async (before?: string): Promise<void> => setPage(await call('AdminService/GetHistory', { tenant, reason: reason.trim(), history: { conv, limit: 50, ...(before ? { before } : {}) } }))
  const older = (): void => {
    setError(undefined)
    read(page?.messages?.[0]?.seq).catch((e: unknown) => setError(e instanceof CallError ? e : new CallError('internal', String(e))))
  }
  const body = (m: MessageJson): string => m.lost ? t('lost') : m.recalledBy ? t('recalled') : m.members ? t('memberChange') : m.group ? t('groupChange') : m.text ?? (m.data ? t('data', { type: m.type ?? '' }) : m.type ?? '')
  const length = new TextEncoder().encode(reason.trim()).length
  const first = page?.messages?.[0]?.seq
  return (
    <Part title={t('history')} actions={page ? <Button small disabled={!first || first === '1'} onClick={older}>{t('older')}</Button> : <Button small onClick={() => setAsking(true)}>{t('readHistory')}</Button>}>
      {!page && <p className="quiet">{t('historyText')}</p>}
      {error && <Trouble error={error} />}
      {page && <Table label={t('history')} rows={(page.messages ?? []).toReversed()} keyOf={(m) => m.seq ?? ''} empty={t('noMessages')} columns={[
        { title: t('seq'), end: true, cell: (m) => <Link page="trace" query={{ tenant, conv, seq: m.seq ?? '' }}>{m.seq}</Link> },
        { title: t('time'), cell: (m) => time(m.timeMs, tr) }, { title: t('from'), cell: (m) => m.from || t('theServer') }, { title: t('text'), wide: true, cell: (m) => <Folded text={body(m)} /> },
      ]} />}
      {asking && (
        <Change title={t('readHistory')} text={t('reasonText')} action={t('readHistory')} done={t('reasonKept')} ready={length > 0 && length <= most} run={() => read()} onClose={() => setAsking(false)}>
          <Field label={t('reason')} hint={t('reasonHint')} error={length > most ? t('tooLong') : undefined} value={reason} onChange={(e) => setReason(e.target.value)} />
        </Change>
      )}
    </Part>
  )
}

export function stateOf(c: ConversationInfoJson, { t }: Translation): ReactElement {
  if (c.unknown) return <Mark look="warn">{t('unknownState')}</Mark>
  if (c.dissolved) return <Mark look="quiet">{t('dissolved')}</Mark>
  return c.frozen ? <Mark look="bad">{t('frozen')}</Mark> : <Mark look="good">{t('open')}</Mark>
}
