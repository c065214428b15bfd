import type { ReactElement } from 'react'
import { useAddress } from '../address.js'
import { call, useCall } from '../call.js'
import { clock } from '../formats.js'
import { named, type Translation, useTranslation } from '../i18n/index.js'
import { Link } from '../parts/Facts.js'
import { Filter, Select } from '../parts/Filter.js'
import { type Column, Listing, Table } from '../parts/Table.js'
import type { RefusalJson } from '../wire/types_gen.js'

const lookMs = 3000

function columnsOf(tr: Translation): readonly Column<RefusalJson>[] {
  const { t } = tr
  return [
    { title: t('time'), cell: (r) => clock(r.timeMs, tr), text: (r) => new Date(Number(r.timeMs ?? 0)).toISOString() },
    { title: t('code'), cell: (r) => <span title={named(tr, 'error', r.code ?? '')}>{r.code}</span>, text: (r) => r.code ?? '' },
    { title: t('what'), cell: (r) => r.what, text: (r) => r.what ?? '' },
    { title: t('user'), cell: (r) => r.user ? <Link page="users" id={r.user} query={r.tenant && r.tenant !== 'default' ? { tenant: r.tenant } : {}}>{r.user}</Link> : <span className="quiet">{t('nobody')}</span>, text: (r) => r.user ?? '' },
    { title: t('address'), cell: (r) => r.address, text: (r) => r.address ?? '' },
    { title: t('node'), cell: (r) => r.node, text: (r) => r.node ?? '' },
    { title: t('times'), end: true, cell: (r) => r.count ?? 1, text: (r) => Number(r.count ?? 1) },
    { title: t('more'), wide: true, cell: (r) => <>{r.clientMsgId && <Link page="trace" query={{ user: r.user ?? '', clientMsgId: r.clientMsgId, conv: r.conv ?? '' }}>{t('traceIt')}</Link>} {r.text}</>, text: (r) => [r.conv, r.clientMsgId, r.text].filter(Boolean).join(' ') },
  ]
}

const keyOf = (r: RefusalJson): string => [r.node, r.timeMs, r.user, r.code, r.what, r.clientMsgId, r.address].join(' ')

export function RefusalTable({ refusals }: { readonly refusals: readonly RefusalJson[] }): ReactElement {
  const tr = useTranslation()
  return <Table label={tr.t('refusals')} columns={columnsOf(tr)} rows={refusals} keyOf={keyOf} empty={tr.t('noRefusals')} />
}

/** Returns the columns of the grouped list: one row for each user, or address, and code. */
function columnsOfGroups(tr: Translation): readonly Column<RefusalJson>[] {
  const { t } = tr
  const by = Object.fromEntries(columnsOf(tr).map((c) => [c.title, c]))
  const kept = (title: string): Column<RefusalJson>[] => by[title] ? [by[title]] : []
  return [
    ...kept(t('times')), { title: t('code'), cell: (r) => <Link page="refusals" query={{ code: r.code ?? '', user: r.user ?? '', each: '1' }}>{r.code}</Link>, text: (r) => r.code ?? '' },
    { title: t('meaning'), wide: true, cell: (r) => named(tr, 'error', r.code ?? '') === r.code ? r.text : named(tr, 'error', r.code ?? ''), text: (r) => r.text ?? '' },
    ...kept(t('user')), ...kept(t('address')), { title: t('what'), cell: (r) => r.what, text: (r) => r.what ?? '' },
    { title: t('firstTime'), cell: (r) => clock(r.firstMs, tr), text: (r) => new Date(Number(r.firstMs ?? 0)).toISOString() },
    { title: t('lastTime'), cell: (r) => clock(r.timeMs, tr), text: (r) => new Date(Number(r.timeMs ?? 0)).toISOString() }, ...kept(t('node')),
  ]
}

/** The refusals of the last hour, on all nodes. */
export function Refusals(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { code = '', user = '', tenant = '', each = '' } = useAddress().query
  const grouped = each === ''
  const request = { code, user, tenant, limit: 200, grouped }
  const { answer, error } = useCall('AdminService/ListRefusals', request, lookMs)
  return (
    <div className="page">
      <header className="page-head"><h1>{t('refusals')}</h1></header>
      <p className="quiet">{t(grouped ? 'refusalsGrouped' : 'refusalsText')}</p>
      <div className="filters"><Filter name="code" label={t('codeFilter')} /><Filter name="user" label={t('userFilter')} /><Select name="each" label={t('shownAs')} of={[['', t('byWhoAndCode')], ['1', t('oneByOne')]]} /></div>
      {(answer?.silent ?? []).length > 0 && <p className="trouble">{t('silentNodesText', { nodes: answer?.silent?.join(', ') ?? '' })}</p>}
      <Listing name="refusals" label={t('refusals')} columns={grouped ? columnsOfGroups(tr) : columnsOf(tr)} keyOf={keyOf} empty={t('noRefusals')} page={answer && { rows: answer.refusals ?? [], next: '' }} error={error} load={async () => ({ rows: (await call('AdminService/ListRefusals', { ...request, limit: 1000 })).refusals ?? [], next: '' })} />
    </div>
  )
}
