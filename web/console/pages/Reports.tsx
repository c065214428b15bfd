import { type ReactElement, useState } from 'react'
import { Button, Field, Spinner } from '../../ui/index.js'
import { useAddress } from '../address.js'
import { call, useCall } from '../call.js'
import { time } from '../formats.js'
import { named, type Translation, useTranslation } from '../i18n/index.js'
import { Change, type Changed } from '../parts/Change.js'
import { Facts, Link, Mark, Part } from '../parts/Facts.js'
import { Filter, Select } from '../parts/Filter.js'
import { Folded } from '../parts/Folded.js'
import { type Column, Listing, type Page, Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import { may } from '../session.js'
import type { ListReportsResponseJson, MessageJson, ReportActionJson, ReportJson, ReportStateJson } from '../wire/types_gen.js'

const states: Readonly<Record<string, ReportStateJson>> = { '': 'REPORT_STATE_OPEN', closed: 'REPORT_STATE_CLOSED', all: 'REPORT_STATE_UNSPECIFIED' }

/** What users have reported: the open reports first. With a number in the address, the page of that report. Spec: P-14.22. */
export function Reports(): ReactElement {
  const { id } = useAddress()
  return id === '' ? <List /> : <Report report={id} key={id} />
}

function stateOf(r: ReportJson, tr: Translation): ReactElement {
  return r.closedMs ? <Mark look="quiet">{named(tr, 'reportDone', r.action ?? '')}</Mark> : <Mark look="warn">{tr.t('reportOpen')}</Mark>
}

function columnsOf(tr: Translation, tenant: string): readonly Column<ReportJson>[] {
  const { t } = tr
  return [
    { title: t('report'), end: true, cell: (r) => <Link page="reports" id={r.report ?? ''} query={{ tenant }}>{r.report}</Link>, text: (r) => r.report ?? '' },
    { title: t('time'), cell: (r) => time(r.timeMs, tr), text: (r) => r.timeMs ? new Date(Number(r.timeMs)).toISOString() : '' },
    { title: t('reportedUser'), cell: (r) => r.user, text: (r) => r.user ?? '' },
    { title: t('reason'), cell: (r) => named(tr, 'reportReason', r.reason ?? ''), text: (r) => r.reason ?? '' },
    { title: t('text'), wide: true, cell: (r) => <Folded text={r.text ?? ''} />, text: (r) => r.text ?? '' },
    { title: t('reporter'), cell: (r) => r.reporter, text: (r) => r.reporter ?? '' },
    { title: t('state'), cell: (r) => stateOf(r, tr), text: (r) => r.closedMs ? r.action ?? '' : 'open' },
  ]
}

function List(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { state = '', user = '', tenant = '', from = '' } = useAddress().query
  const pageOf = (a: ListReportsResponseJson): Page<ReportJson> => ({ rows: a.reports ?? [], next: a.token ?? '' })
  const request = (at: string, limit = 50): object => ({ tenant, user, state: states[state] ?? 'REPORT_STATE_OPEN', limit, ...at ? { token: at } : {} })
  const { answer, error } = useCall('AdminService/ListReports', request(from), 10_000)
  return (
    <div className="page">
      <header className="page-head"><h1>{t('reports')}</h1></header>
      <div className="filters"><Select name="state" label={t('state')} of={[['', t('openReports')], ['closed', t('closedReports')], ['all', t('allReports')]]} /><Filter name="user" label={t('reportedUser')} /><Filter name="tenant" label={t('tenantFilter')} /></div>
      <p className="quiet">{t('reportsText')}</p>
      <Listing name="reports" label={t('reports')} columns={columnsOf(tr, tenant)} keyOf={(r) => r.report ?? ''} empty={t('noReports')} page={answer && pageOf(answer)} error={error} load={async (at) => pageOf(await call('AdminService/ListReports', request(at, 100)))} />
    </div>
  )
}

type Act = Exclude<ReportActionJson, 'REPORT_ACTION_UNSPECIFIED'>

/** One report: what was reported, the copies of messages after a reason was given, the notes, and the actions. */
function Report({ report }: { readonly report: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { tenant = '' } = useAddress().query
  const { answer: r, error, again } = useCall('AdminService/GetReport', { tenant, report })
  const [asking, setAsking] = useState<Act>()
  const close = (): void => {
    setAsking(undefined)
    again()
  }
  const person = (user = ''): ReactElement => may('users') ? <Link page="users" id={user} query={{ tenant }}>{user}</Link> : <>{user}</>
  return (
    <div className="page">
      <p><Link page="reports" query={{ tenant }}>← {t('reports')}</Link></p>
      {error && <Trouble error={error} />}
      {!r && !error && <Spinner label={t('loading')} />}
      {r && (
        <>
          <header className="page-head">
            <h1>{t('reportTitle', { report, user: r.user ?? '' })}</h1>
            <span className="space" />
            <Button small onClick={() => setAsking('REPORT_ACTION_NOTE')}>{t('addNote')}</Button>
            {!r.closedMs && <Button small onClick={() => setAsking('REPORT_ACTION_DISMISS')}>{t('dismiss')}</Button>}
            {!r.closedMs && r.conv && <Button small look="danger" onClick={() => setAsking('REPORT_ACTION_RECALL')}>{t('recallMessage')}</Button>}
            {!r.closedMs && may('users') && <Button small look="danger" onClick={() => setAsking('REPORT_ACTION_MUTE')}>{t('mute')}</Button>}
            {!r.closedMs && may('users') && <Button small look="danger" onClick={() => setAsking('REPORT_ACTION_DISABLE')}>{t('disable')}</Button>}
          </header>
          <Facts of={[
            [t('state'), stateOf(r, tr)], [t('reason'), named(tr, 'reportReason', r.reason ?? '')], [t('reportedUser'), person(r.user)], [t('reporter'), person(r.reporter)], [t('time'), time(r.timeMs, tr)],
            ...r.conv ? [[t('message'), may('conversations') ? <><Link page="conversations" id={r.conv} query={{ tenant }}>{r.conv}</Link> · {r.seq}</> : `${r.conv} · ${r.seq}`] as const] : [],
          ]} />
          <Part title={t('reporterSays')}><p className="said">{r.text || t('none')}</p></Part>
          {r.conv && <Kept tenant={tenant} report={report} seq={r.seq ?? ''} />}
          <Part title={t('notes')}>
            <Table label={t('notes')} rows={r.notes ?? []} keyOf={(n) => `${n.timeMs} ${n.by} ${n.text}`} empty={t('noNotes')} columns={[
              { title: t('time'), cell: (n) => time(n.timeMs, tr) }, { title: t('by'), cell: (n) => n.by }, { title: t('action'), cell: (n) => named(tr, 'reportDone', n.action ?? '') }, { title: t('note'), wide: true, cell: (n) => n.text ?? '' },
            ]} />
          </Part>
          {asking && <Ask act={asking} tenant={tenant} r={r} onClose={close} />}
        </>
      )}
    </div>
  )
}

/** The copies of the reported message and of those before it. The operator has to give a reason, which the audit log keeps. */
function Kept({ tenant, report, seq }: { readonly tenant: string; readonly report: string; readonly seq: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [asking, setAsking] = useState(false)
  const [reason, setReason] = useState('')
  const [kept, setKept] = useState<ReportJson>()
  const length = new TextEncoder().encode(reason.trim()).length
  const most = 200 // bytes
  const body = (m: MessageJson): string => m.recalledBy ? t('recalled') : m.members ? t('memberChange') : m.group ? t('groupChange') : m.text ?? (m.data ? t('data', { type: m.type ?? '' }) : m.type ?? '')
  return (
    <Part title={t('keptMessages')} actions={kept ? undefined : <Button small onClick={() => setAsking(true)}>{t('readKept')}</Button>}>
      {!kept && <p className="quiet">{t('keptText')}</p>}
      {(kept?.leftOut ?? 0) > 0 && <p className="quiet">{t('leftOut', { n: kept?.leftOut ?? 0 })}</p>}
      {kept && <Table label={t('keptMessages')} rows={kept.context ?? []} keyOf={(m) => m.seq ?? ''} empty={t('nothingKept')} columns={[
        { title: t('seq'), end: true, cell: (m) => m.seq === seq ? <strong>{m.seq}</strong> : m.seq }, { title: t('time'), cell: (m) => time(m.timeMs, tr) }, { title: t('from'), cell: (m) => m.from || t('theServer') },
        { title: t('text'), wide: true, cell: (m) => m.seq === seq ? <strong><Folded text={body(m)} /></strong> : <Folded text={body(m)} /> },
      ]} />}
      {asking && (
        <Change title={t('readKept')} text={t('reasonText')} action={t('readKept')} done={t('reasonKept')} ready={length > 0 && length <= most} run={async () => setKept(await call('AdminService/GetReport', { tenant, report, reason: reason.trim(), context: true }))} onClose={() => setAsking(false)}>
          <Field label={t('reason')} hint={t('reasonHint')} error={length > most ? t('tooLong') : undefined} value={reason} onChange={(e) => setReason(e.target.value)} />
        </Change>
      )}
    </Part>
  )
}

export const muteHours = [1, 24, 7 * 24, 30 * 24] as const

/** The choice of how long a user is muted. */
export function MuteTime({ hours, onChange }: { readonly hours: number; readonly onChange: (hours: number) => void }): ReactElement {
  const { t } = useTranslation()
  const text = (h: number): string => h < 24 ? t('forHours', { n: h }) : t('forDays', { n: h / 24 })
  return <label className="field"><span className="field-label">{t('muteFor')}</span><select className="field-input" value={hours} onChange={(e) => onChange(Number(e.target.value))}>{muteHours.map((h) => <option key={h} value={h}>{text(h)}</option>)}</select></label>
}

export const untilIn = (hours: number): string => String(Date.now() + hours * 3_600_000)

function Ask({ act, tenant, r, onClose }: { readonly act: Act; readonly tenant: string; readonly r: ReportJson; readonly onClose: () => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [note, setNote] = useState('')
  const [hours, setHours] = useState<number>(24)
  const closes = act !== 'REPORT_ACTION_NOTE'
  const tooLong = [...note].length > 500
  const user = r.user ?? ''
  const of: Readonly<Record<Act, readonly Changed[]>> = {
    REPORT_ACTION_NOTE: [], REPORT_ACTION_DISMISS: [],
    REPORT_ACTION_RECALL: [{ name: t('message'), from: r.seq ?? '', to: t('recalled') }],
    REPORT_ACTION_MUTE: [{ name: user, from: t('mayWrite'), to: t('muted') }],
    REPORT_ACTION_DISABLE: [{ name: user, from: t('enabled'), to: t('disabled') }],
  }
  const changes = [...of[act], ...closes ? [{ name: t('report'), from: t('reportOpen'), to: t('closed') }] : []]
  const action = { REPORT_ACTION_NOTE: t('addNote'), REPORT_ACTION_DISMISS: t('dismiss'), REPORT_ACTION_RECALL: t('recallMessage'), REPORT_ACTION_MUTE: t('mute'), REPORT_ACTION_DISABLE: t('disable') }[act]
  const text = { REPORT_ACTION_NOTE: t('noteText'), REPORT_ACTION_DISMISS: t('dismissText'), REPORT_ACTION_RECALL: t('recallText'), REPORT_ACTION_MUTE: t('muteText'), REPORT_ACTION_DISABLE: t('disableText') }[act]
  return (
    <Change danger={closes && act !== 'REPORT_ACTION_DISMISS'} title={action} text={text} changes={changes} action={action} done={t(closes ? 'doneReport' : 'doneNote')} ready={!tooLong && (closes || note.trim() !== '')} run={(requestId) => call('AdminService/ResolveReport', { tenant, report: r.report ?? '', action: act, note: note.trim(), requestId, ...act === 'REPORT_ACTION_MUTE' ? { untilMs: untilIn(hours) } : {} })} onClose={onClose}>
      {act === 'REPORT_ACTION_MUTE' && <MuteTime hours={hours} onChange={setHours} />}
      <Field label={t('note')} hint={t('noteHint')} error={tooLong ? t('tooLong') : undefined} value={note} onChange={(e) => setNote(e.target.value)} />
    </Change>
  )
}
