import { type ReactElement, useState } from 'react'
import { Button } from '../../ui/index.js'
import { useAddress } from '../address.js'
import { call, CallError, useCall } from '../call.js'
import { time } from '../formats.js'
import { type Translation, useTranslation } from '../i18n/index.js'
import { Mark, Part } from '../parts/Facts.js'
import { Filter, Select } from '../parts/Filter.js'
import { type Column, Listing, type Page, useOrder } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import type { AuditRecordJson, ListAuditRequestJson, ListAuditResponseJson, VerifyAuditResponseJson } from '../wire/types_gen.js'

const hourMs = 3_600_000

const whoOf = (r: AuditRecordJson): string => r.operator || r.user || r.keyName || r.key || ''
const detailsOf = (r: AuditRecordJson): string => (r.details ?? []).filter((d) => !/^(before|after)\./.test(d.name ?? '')).map((d) => `${d.name}=${d.value}`).join(' ')

/** Returns the values that a call has changed, before and after. */
function changesOf(r: AuditRecordJson): string[] {
  const of = (when: string): Map<string, string> => new Map((r.details ?? []).filter((d) => d.name?.startsWith(when)).map((d) => [d.name?.slice(when.length) ?? '', d.value ?? '']))
  const [before, after] = [of('before.'), of('after.')]
  return [...new Set([...before.keys(), ...after.keys()])].map((name) => `${name}: ${before.get(name) ?? '–'} → ${after.get(name) ?? '–'}`)
}

function columnsOf(tr: Translation): readonly Column<AuditRecordJson>[] {
  const { t } = tr
  return [
    { title: t('time'), order: '', cell: (r) => time(r.timeMs, tr), text: (r) => new Date(Number(r.timeMs ?? 0)).toISOString() },
    { title: t('event'), cell: (r) => <span title={r.event}>{r.event?.split('/').at(-1)}</span>, text: (r) => r.event ?? '' },
    { title: t('who'), cell: (r) => whoOf(r) || <span className="quiet">{t(r.address ? 'notLoggedIn' : 'theServer')}</span>, text: whoOf },
    { title: t('result'), cell: (r) => r.code ? <Mark look="bad">{r.code}</Mark> : <Mark look="good">{t('done')}</Mark>, text: (r) => r.code ?? '' },
    { title: t('details'), wide: true, cell: (r) => <>{changesOf(r).map((c) => <div key={c}><b>{c}</b></div>)}<code>{detailsOf(r)}</code>{Number(r.count ?? 0) > 1 && ` × ${r.count}`}</>, text: (r) => [...changesOf(r), detailsOf(r)].join('; ') },
    { title: t('address'), cell: (r) => r.address, text: (r) => r.address ?? '' },
    { title: t('record'), cell: (r) => <code>{r.node} {r.number}</code>, text: (r) => `${r.node} ${r.number}` },
  ]
}

/** The audit log of a period, newest first unless the address says otherwise. */
export function Audit(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { event = '', who = '', about = '', refused = '', hours = '', from = '' } = useAddress().query
  const order = useOrder(true)
  const [began] = useState(() => Date.now()) // fixed, so that all pages are of the same period
  const span = hours === 'all' ? 0 : Number(hours || '1') * hourMs
  const request = (at: string, limit = 100): ListAuditRequestJson => ({ event, who, about, refused: refused === '1', descending: order.down, limit, ...(span > 0 ? { sinceMs: String(began - span) } : {}), ...(at ? { token: at } : {}) })
  const pageOf = (a: ListAuditResponseJson): Page<AuditRecordJson> => ({ rows: a.records ?? [], next: a.token ?? '' })
  const { answer, error } = useCall('AdminService/ListAudit', request(from))
  return (
    <div className="page">
      <header className="page-head"><h1>{t('audit')}</h1></header>
      <div className="filters">
        <Filter name="event" label={t('eventFilter')} />
        <Filter name="who" label={t('whoFilter')} />
        <Filter name="about" label={t('aboutFilter')} />
        <Select name="hours" label={t('period')} of={[['', t('lastHour')], ['24', t('lastDay')], ['168', t('lastWeek')], ['all', t('always')]]} />
        <Select name="refused" label={t('result')} of={[['', t('allResults')], ['1', t('refusedOnly')]]} />
      </div>
      <Listing name="audit" label={t('audit')} order={order} columns={columnsOf(tr)} keyOf={(r) => `${r.node} ${r.number}`} empty={answer?.token ? t('noRecordsYet') : t('noRecords')} page={answer && pageOf(answer)} error={error} load={async (at) => pageOf(await call('AdminService/ListAudit', request(at, 1000)))} />
      <Verify />
    </div>
  )
}

/** Verifies the chains of the whole log, and shows whether a record was changed. */
function Verify(): ReactElement {
  const { t } = useTranslation()
  const [busy, setBusy] = useState(false)
  const [answer, setAnswer] = useState<VerifyAuditResponseJson>()
  const [error, setError] = useState<CallError>()
  const verify = (): void => {
    setBusy(true)
    setError(undefined)
    call('AdminService/VerifyAudit', {}).then(setAnswer, (e: unknown) => setError(e instanceof CallError ? e : new CallError('internal', String(e)))).finally(() => setBusy(false))
  }
  const faults = answer?.faults ?? []
  return (
    <Part title={t('chain')} actions={<Button small disabled={busy} onClick={verify}>{busy ? t('verifying') : t('verifyChain')}</Button>}>
      <p className="quiet">{t('chainText')}</p>
      {error && <Trouble error={error} />}
      {answer && <p role="status">{faults.length === 0 ? <Mark look="good">{t('chainWhole', { n: Number(answer.records ?? 0) })}</Mark> : <Mark look="bad">{t('chainBroken', { n: faults.length })}</Mark>}</p>}
      {faults.length > 0 && <ul className="plain">{faults.map((f) => <li key={`${f.node} ${f.number} ${f.what}`}><code>{f.node} {f.number ?? ''}</code> {f.what}: {f.text}</li>)}</ul>}
      {answer && faults.length === 0 && <ul className="plain">{(answer.heads ?? []).map((h) => <li key={h.node}><code>{h.node} {h.number} {h.hash}</code></li>)}</ul>}
    </Part>
  )
}
