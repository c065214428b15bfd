import { type FormEvent, type ReactElement, useState } from 'react'
import { Button, Choices, Field, Spinner } from '../../ui/index.js'
import { go, addressOf, narrow, useAddress } from '../address.js'
import { useCall } from '../call.js'
import { bytes, time } from '../formats.js'
import { named, type Translation, useTranslation } from '../i18n/index.js'
import { Facts, Link, Mark, Part } from '../parts/Facts.js'
import { type Column, Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import { may } from '../session.js'
import type { TracedRecipientJson, TraceMessageRequestJson, TraceMessageResponseJson } from '../wire/types_gen.js'
import { RefusalTable } from './Refusals.js'
import { WhyNot } from './User.js'

const lookMs = 2000 // repeated, because a waiting message may arrive meanwhile

type How = 'client' | 'seq' | 'user'

/** Explains why a message did not arrive, or why a user is not connected. The question is in the address. */
export function Trace(): ReactElement {
  const { t } = useTranslation()
  const { query } = useAddress()
  const { user = '', clientMsgId = '', conv = '', seq = '', recipient = '', tenant = '', of = '' } = query
  const how: How = of === 'user' ? 'user' : seq !== '' || of === 'seq' ? 'seq' : 'client'
  const asked: TraceMessageRequestJson | undefined = how === 'seq' && conv !== '' && seq !== '' ? { tenant, conv, seq, recipient } : how === 'client' && user !== '' && clientMsgId !== '' ? { tenant, user, clientMsgId, conv, recipient } : undefined
  const ways: readonly (readonly [How, string])[] = [['client', t('traceByClient')], ['seq', t('traceBySeq')], ...may('users') ? [['user', t('traceUser')] as const] : []]
  return (
    <div className="page">
      <header className="page-head"><h1>{t('traceTitle')}</h1></header>
      <div className="narrow"><Choices label={t('traceHow')} value={how} of={ways} onChange={(to) => go(addressOf('trace', '', { of: to, tenant, conv: to === 'user' ? '' : conv, user: to === 'seq' ? '' : user }))} /></div>
      <Question key={JSON.stringify(query)} how={how} />
      {how === 'user' && user !== '' && <WhyNot tenant={tenant} user={user} />}
      {asked && <Answered key={JSON.stringify(asked)} request={asked} />}
    </div>
  )
}

/** The fields of the question. Their values are in the address after they are submitted. */
function Question({ how }: { readonly how: How }): ReactElement {
  const { t } = useTranslation()
  const { query } = useAddress()
  const [fields, setFields] = useState(query)
  const at = (name: string): { value: string; onChange: (e: { target: HTMLInputElement }) => void; autoComplete: string; spellCheck: boolean; autoCapitalize: string } => ({
    value: fields[name] ?? '', onChange: (e) => setFields({ ...fields, [name]: e.target.value }), autoComplete: 'off', spellCheck: false, autoCapitalize: 'none',
  })
  const submit = (e: FormEvent): void => {
    e.preventDefault()
    narrow(Object.fromEntries(['user', 'clientMsgId', 'conv', 'seq', 'recipient', 'tenant'].map((name) => [name, (fields[name] ?? '').trim()])))
  }
  const filled = (name: string): boolean => (fields[name] ?? '').trim() !== ''
  const ready = how === 'user' ? filled('user') : how === 'seq' ? filled('conv') && /^\d+$/.test((fields['seq'] ?? '').trim()) : filled('user') && filled('clientMsgId')
  return (
    <form className="question" onSubmit={submit}>
      {how === 'seq' ? <><Field label={t('conversationId')} {...at('conv')} /><Field label={t('seq')} inputMode="numeric" {...at('seq')} /></> : <Field label={t(how === 'user' ? 'userId' : 'sender')} {...at('user')} />}
      {how === 'client' && <><Field label={t('clientMsgId')} {...at('clientMsgId')} /><Field label={t('conversationIfKnown')} {...at('conv')} /></>}
      {how !== 'user' && <Field label={t('recipientOnly')} {...at('recipient')} />}
      <Field label={t('tenantFilter')} {...at('tenant')} />
      <Button look="primary" type="submit" disabled={!ready}>{t('traceIt')}</Button>
    </form>
  )
}

function Answered({ request }: { readonly request: TraceMessageRequestJson }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [after, setAfter] = useState('')
  const { answer, error } = useCall('AdminService/TraceMessage', { ...request, after, limit: 50 }, lookMs)
  if (!answer) return error ? <Trouble error={error} /> : <Spinner label={t('loading')} />
  const outcome = answer.outcome?.slice('TRACE_OUTCOME_'.length) ?? ''
  const recipients = answer.recipients ?? []
  return (
    <div className="answer" aria-live="polite">
      {error && <Trouble error={error} />}
      <p className="outcome"><Mark look={outcome === 'STORED' ? 'good' : outcome === 'UNKNOWN' ? 'warn' : 'bad'}>{named(tr, 'outcome', outcome)}</Mark> <span>{named(tr, 'outcomeText', outcome)}</span></p>
      {(answer.silent ?? []).length > 0 && <p className="trouble">{t('silentNodesText', { nodes: answer.silent?.join(', ') ?? '' })}</p>}
      {(answer.refusals ?? []).length > 0 && <Part title={t('refusals')}><RefusalTable refusals={answer.refusals ?? []} /></Part>}
      {answer.entry && <Stored answer={answer} tenant={request.tenant ?? ''} />}
      {answer.entry && (
        <Part title={t('recipients')} actions={<>{after !== '' && <Button small onClick={() => setAfter('')}>{t('firstPage')}</Button>}{answer.more && <Button small onClick={() => setAfter(recipients.at(-1)?.user ?? '')}>{t('nextPage')}</Button>}</>}>
          <Table label={t('recipients')} rows={recipients} keyOf={(r) => r.user ?? ''} empty={t('noRecipients')} columns={columnsOf(tr, request.tenant ?? '')} />
          {recipients.some((r) => r.inferred) && <p className="quiet">{t('inferredText')}</p>}
        </Part>
      )}
    </div>
  )
}

function Stored({ answer, tenant }: { readonly answer: TraceMessageResponseJson; readonly tenant: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const e = answer.entry ?? {}
  return (
    <Part title={t('stored')}>
      <Facts of={[
        [t('conversation'), <Link key="c" page="conversations" id={e.conv ?? ''} query={{ tenant }}>{e.conv}</Link>], [t('seq'), t('seqOf', { seq: e.seq ?? '', head: e.head ?? '' })], [t('sender'), e.user || t('theServer')], [t('clientMsgId'), e.clientMsgId || '–'],
        [t('acceptedAt'), time(e.acceptedMs, tr)], [t('size'), bytes(e.bytes, tr)], [t('owner'), `${e.owner || '–'} · ${t('partition')} ${e.partition ?? 0}`],
        ...e.recalled ? [[t('state'), t('recalled')] as const] : e.edited ? [[t('state'), t('edited')] as const] : [],
      ]} />
    </Part>
  )
}

const looks: Readonly<Record<string, 'good' | 'warn' | 'bad' | 'quiet'>> = { READ: 'good', DELIVERED: 'good', WRITTEN: 'good', HINTED: 'good', SENDER: 'quiet', OFFLINE: 'warn', PENDING: 'warn', LAGGED: 'warn', SILENT_NODE: 'bad', MAY_NOT: 'quiet' }

function columnsOf(tr: Translation, tenant: string): readonly Column<TracedRecipientJson>[] {
  const { t } = tr
  const short = (state = ''): string => state.slice('TRACE_STATE_'.length)
  return [
    { title: t('user'), cell: (r) => <Link page="users" id={r.user ?? ''} query={{ tenant }}>{r.user}</Link> },
    { title: t('state'), cell: (r) => <><Mark look={looks[short(r.state)] ?? 'quiet'}>{named(tr, 'trace', short(r.state))}</Mark>{r.inferred && <span className="quiet"> {t('inferred')}</span>}</> },
    { title: t('why'), wide: true, cell: (r) => (
      <>
        <div>{named(tr, 'traceWhy', short(r.state))}{r.silent ? ` ${t('onNode', { node: r.silent })}` : ''}{r.sinceMs && r.sinceMs !== '0' ? ` ${t('sinceTime', { time: time(r.sinceMs, tr) })}` : ''}</div>
        {(r.sessions ?? []).map((s) => <div className="quiet" key={`${s.session?.node} ${s.session?.device} ${s.session?.address}`}>{s.session?.device || t('noDevice')} · {s.session?.node} · {s.session?.address} · {named(tr, 'trace', short(s.state))}{s.session?.inFocus ? ` · ${t('inFocus')}` : ''}</div>)}
        {(r.away ?? []).length > 0 && <div className="quiet">{t('awayDevices', { devices: r.away?.join(', ') ?? '' })}</div>}
      </>
    ) },
    { title: t('deliveredTo'), end: true, cell: (r) => r.delivered ?? 0 },
    { title: t('readTo'), end: true, cell: (r) => r.read ?? 0 },
  ]
}
