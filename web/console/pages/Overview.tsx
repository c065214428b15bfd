import { type ReactElement, type ReactNode, useMemo } from 'react'
import { Icon, Spinner } from '../../ui/index.js'
import { narrow, useAddress } from '../address.js'
import { useCall } from '../call.js'
import { bytes, clock, ms, number, span, taken, time } from '../formats.js'
import { type Key, named, type Translation, useTranslation } from '../i18n/index.js'
import { textOf } from '../incidents.js'
import { type Live, useLive, useVerdict } from '../live.js'
import { Chart } from '../parts/Chart.js'
import { Facts, Guide, Link, Mark, Part } from '../parts/Facts.js'
import { type Column, Table } from '../parts/Table.js'
import { may } from '../session.js'
import type { IncidentJson, LargeConversationJson, NodeReportJson, OverviewJson, SampleJson, TenantTotalsJson } from '../wire/types_gen.js'

/** The page that operators leave open: the health, the incidents with what to do, and the last hour. */
export function Overview(): ReactElement {
  const tr = useTranslation()
  const live = useLive()
  const { overview } = live
  if (!overview) return <div className="page"><h1>{tr.t('overview')}</h1>{!live.error && <Spinner label={tr.t('loading')} />}</div>
  const last = live.samples.at(-1)
  return (
    <div className="page">
      <h1 className="unseen">{tr.t('overview')}</h1>
      <Verdict live={live} />
      {!live.error && <Incidents incidents={overview.incidents ?? []} nodes={overview.nodes?.length ?? 0} now={Number(overview.timeMs ?? Date.now())} />}
      {may('messages') && <OpenReports />}
      <Past past={live.past} nodes={overview.nodes ?? []} />
      <Strip last={last} nodes={overview.nodes ?? []} />
      <Totals overview={overview} />
      <Charts samples={live.samples} />
      <Nodes nodes={overview.nodes ?? []} now={Number(overview.timeMs ?? Date.now())} partitions={overview.partitions ?? 0} unowned={overview.unowned ?? []} misplaced={overview.misplaced ?? 0} />
      <Refused nodes={overview.nodes ?? []} />
    </div>
  )
}

function Verdict({ live }: { readonly live: Live }): ReactElement {
  const tr = useTranslation()
  const verdict = useVerdict()
  const all = live.overview?.nodes ?? []
  const answered = all.filter((n) => n.answered).length
  return (
    <div className={`verdict verdict-${verdict}`} role="status">
      <Icon name={verdict === 'well' ? 'check' : 'alert'} />
      <strong>{tr.t(`verdict_${verdict}`)}</strong>
      <span>{live.error ? '' : tr.t('nodesAnswer', { n: all.length, m: answered })}</span>
      <span className="space" />
      <span className="verdict-time">{clock(live.overview?.timeMs, tr)}</span>
    </div>
  )
}

/** Says how many reports of the default tenant wait for an operator. */
function OpenReports(): ReactElement | null {
  const { t } = useTranslation()
  const { answer } = useCall('AdminService/ListReports', { state: 'REPORT_STATE_OPEN', limit: 1 }, 10_000)
  const n = Number(answer?.open ?? 0)
  return n === 0 ? null : <p className="reports-wait"><Mark look="warn">{t('reports')}</Mark> <Link page="reports">{t('reportsWait', { n })}</Link></p>
}

/** By the code of an incident: the page with more about it, and the key of the link's text. */
const placeOf: Readonly<Record<string, readonly [string, Key]>> = {
  logins_wrong: ['refusals', 'refusals'], refusals_many: ['refusals', 'refusals'], backup_none: ['backups', 'backups'], backup_old: ['backups', 'backups'], backup_unsound: ['backups', 'backups'], greedy_user: ['refusals', 'refusals'], overloaded: ['refusals', 'refusals'], connections_full: ['limits', 'limits'], node_draining: ['cluster', 'cluster'], node_silent: ['cluster', 'cluster'], node_gone: ['cluster', 'cluster'],
  node_apart: ['cluster', 'cluster'], node_slow: ['cluster', 'cluster'], partitions_unowned: ['cluster', 'cluster'], audit_lost: ['audit', 'audit'], store_damaged: ['backups', 'backups'], store_stopped: ['log', 'log'], not_ready: ['log', 'log'],
}

function Incidents({ incidents, nodes, now }: { readonly incidents: readonly IncidentJson[]; readonly nodes: number; readonly now: number }): ReactElement {
  const tr = useTranslation()
  if (incidents.length === 0) return <p className="quiet nothing-wrong">{tr.t('noIncidents')}</p>
  return (
    <ul className="incidents" aria-label={tr.t('incidents')}>
      {incidents.map((i, at) => {
        const code = i.code ?? ''
        const place = placeOf[code]
        return (
          <li key={`${code} ${i.node} ${incidents.slice(0, at).filter((x) => x.code === i.code && x.node === i.node).length}`} className={i.severity === 'VERDICT_CRITICAL' ? 'incident-critical' : 'incident-degraded'}>
            <details open>
              <summary>
                <Mark look={i.severity === 'VERDICT_CRITICAL' ? 'bad' : 'warn'}>{tr.t(i.severity === 'VERDICT_CRITICAL' ? 'verdict_critical' : 'verdict_degraded')}</Mark>
                <span className="incident-text">{textOf(i, nodes, tr)}</span>
                <span className="quiet">{tr.t('since', { time: clock(i.sinceMs, tr), span: span(now - Number(i.sinceMs ?? now), tr) })}</span>
              </summary>
              <p>{named(tr, 'todo', code) === code ? '' : named(tr, 'todo', code)} {place && <><Link page={place[0]}>{tr.t(place[1])}</Link> · </>}<Guide page={`console.md#${code}`}>{tr.t('guide')}</Guide></p>
            </details>
          </li>
        )
      })}
    </ul>
  )
}

/** The ended incidents, in a list that the operator unfolds. */
function Past({ past, nodes }: { readonly past: readonly IncidentJson[]; readonly nodes: readonly NodeReportJson[] }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  if (past.length === 0) return <></>
  const started = Math.max(0, ...nodes.map((n) => Number(n.startedMs ?? 0)))
  return (
    <details className="past">
      <summary>{t('pastIncidents', { n: past.length })}</summary>
      <Table label={t('pastTitle')} rows={past} keyOf={(i) => `${i.code} ${i.node} ${i.sinceMs}`} empty="" columns={[
        { title: t('began'), cell: (i) => time(i.sinceMs, tr) }, { title: t('ended'), cell: (i) => time(i.endedMs, tr) },
        { title: t('lasted'), cell: (i) => span(Number(i.endedMs ?? 0) - Number(i.sinceMs ?? 0), tr) },
        { title: t('what'), wide: true, cell: (i) => <><Mark look={i.severity === 'VERDICT_CRITICAL' ? 'bad' : 'warn'}>{t(i.severity === 'VERDICT_CRITICAL' ? 'verdict_critical' : 'verdict_degraded')}</Mark> {textOf(i, nodes.length, tr)}</> },
      ]} />
      <p className="quiet">{t('pastSince', { time: time(started, tr) })}</p>
    </details>
  )
}

/** The totals of all tenants; if there are several, also those of each. */
function Totals({ overview }: { readonly overview: OverviewJson }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const nodes = overview.nodes ?? []
  const tenants = overview.totals?.tenants ?? []
  const counted = (f: (x: TenantTotalsJson) => string | undefined): string => overview.totals ? number(sum(tenants, f), tr) : '–'
  const sized = tenants.length > 0 && tenants.every((x) => x.messages !== undefined) // otherwise a part of the store cannot be read
  const largest = overview.totals?.largest ?? []
  const onDisk = nodes.flatMap((n) => n.storage?.kind === 'postgres' ? [] : [n])
  return (
    <Part title={t('totals')}>
      <dl className="strip totals">
        <Metric name={t('users')} value={counted((x) => x.users)} />
        <Metric name={t('groups')} value={counted((x) => x.groups)} />
        <Metric name={t('peopleOnline')} value={number(nodes.reduce((n, x) => n + (x.online ?? 0), 0), tr)} />
        <Metric name={t('messagesStored')} value={sized ? counted((x) => x.messages) : '–'} />
        <Metric name={t('storedBytes')} value={sized ? bytes(sum(tenants, (x) => x.storedBytes), tr) : '–'} />
        {onDisk.length > 0 && <Metric name={t('diskUsed')} value={bytes(sum(onDisk, (n) => n.storage?.diskBytes), tr)} />}
      </dl>
      {tenants.length > 1 && (
        <Table label={t('byTenant')} rows={tenants} keyOf={(x) => x.tenant ?? ''} empty="" columns={[
          { title: t('tenant'), wide: true, cell: (x) => <Link page="users" query={{ tenant: x.tenant === 'default' ? '' : x.tenant ?? '' }}>{x.tenant}</Link> },
          { title: t('users'), end: true, cell: (x) => number(Number(x.users ?? 0), tr) }, { title: t('groups'), end: true, cell: (x) => number(Number(x.groups ?? 0), tr) },
          { title: t('messagesStored'), end: true, cell: (x) => x.messages === undefined ? '–' : number(Number(x.messages), tr) }, { title: t('storedBytes'), end: true, cell: (x) => x.storedBytes === undefined ? '–' : bytes(x.storedBytes, tr) },
          { title: t('takenBytes'), end: true, cell: (x) => taken(x, tr) },
        ]} />
      )}
      {largest.length > 0 && (
        <details className="past">
          <summary>{t('largest')}</summary>
          <Table label={t('largest')} rows={largest} keyOf={(x) => x.conv ?? ''} empty="" columns={[
            { title: t('conversation'), wide: true, cell: (x) => <Link page="conversations" id={x.conv ?? ''} query={x.tenant === 'default' ? {} : { tenant: x.tenant ?? '' }}>{x.conv}</Link> },
            ...tenants.length > 1 ? [{ title: t('tenant'), cell: (x: LargeConversationJson) => x.tenant }] : [],
            { title: t('messagesStored'), end: true, cell: (x) => number(Number(x.messages ?? 0), tr) }, { title: t('storedBytes'), end: true, cell: (x) => bytes(x.storedBytes, tr) },
          ]} />
        </details>
      )}
      {overview.totals && <p className="quiet">{t('countedAt', { time: clock(overview.totals.countedMs, tr) })}</p>}
    </Part>
  )
}

function sum<T>(list: readonly T[], f: (x: T) => string | undefined): number {
  return list.reduce((n, x) => n + Number(f(x) ?? 0), 0)
}

function Metric({ name, value, note }: { readonly name: string; readonly value: string; readonly note?: string }): ReactElement {
  return <div className="metric"><dt>{name}</dt><dd><span>{value}</span>{note !== undefined && <> <span className="quiet">{note}</span></>}</dd></div>
}

function Strip({ last, nodes }: { readonly last: SampleJson | undefined; readonly nodes: readonly NodeReportJson[] }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const n = (v: number | undefined): string => number(v ?? 0, tr)
  const sync = Math.max(0, ...nodes.map((node) => node.storage?.syncMs ?? 0))
  const free = nodes.flatMap(({ storage }) => storage && storage.kind !== 'postgres' ? [Number(storage.freeBytes ?? 0)] : [])
  return (
    <dl className="strip">
      <Metric name={t('connections')} value={n(last?.connections)} />
      <Metric name={t('offered')} value={n(last?.offered)} note={t('perSecond')} />
      <Metric name={t('accepted')} value={n(last?.accepted)} note={t('perSecond')} />
      <Metric name={t('delivered')} value={n(last?.delivered)} note={t('perSecond')} />
      <Metric name={t('refusedRate')} value={n(last?.refused)} note={t('perSecond')} />
      <Metric name={t('ackP99')} value={ms(last?.ackP99Ms, tr)} note={`p50 ${ms(last?.ackP50Ms, tr)}`} />
      <Metric name={t('commitP99')} value={ms(last?.commitP99Ms, tr)} note={`p50 ${ms(last?.commitP50Ms, tr)}`} />
      <Metric name={t('sync')} value={ms(sync, tr)} />
      {free.length > 0 && <Metric name={t('diskFree')} value={bytes(Math.min(...free), tr)} />}
      <Metric name={t('waiting')} value={n(last?.waiting)} />
      <Metric name={t('cpu')} value={n(last?.cpu)} note={t('cores')} />
      <Metric name={t('memory')} value={bytes(nodes.reduce((sum, node) => sum + Number(node.rssBytes ?? 0), 0), tr)} />
    </dl>
  )
}

function Charts({ samples }: { readonly samples: readonly SampleJson[] }): ReactElement {
  const { t } = useTranslation()
  const times = useMemo(() => samples.map((s) => Number(s.timeMs) / 1000), [samples])
  const of = (f: (s: SampleJson) => number | undefined): number[] => samples.map((s) => f(s) ?? 0)
  const measured = (f: (s: SampleJson) => number | undefined): (number | null)[] => samples.map((s) => f(s) || null) // 0: there was no measurement
  return (
    <section className="charts" aria-label={t('lastHour')}>
      <Chart title={t('sends')} unit={t('perSecond')} times={times} lines={[{ name: t('offered'), color: 'chart-2', values: of((s) => s.offered) }, { name: t('accepted'), color: 'chart-1', values: of((s) => s.accepted) }, { name: t('refusedRate'), color: 'chart-3', values: of((s) => s.refusedSends) }]} />
      <Chart title={t('refusals')} unit={t('perSecond')} times={times} lines={[{ name: t('refusedAll'), color: 'chart-1', values: of((s) => s.refused) }, { name: t('refusedLogins'), color: 'chart-3', values: of((s) => s.refusedLogins) }]} />
      <Chart title={t('delivered')} unit={t('perSecond')} times={times} lines={[{ name: t('delivered'), color: 'chart-1', values: of((s) => s.delivered) }]} />
      <Chart title={t('latency')} unit="ms" times={times} lines={[{ name: t('ackP99'), color: 'chart-2', values: measured((s) => s.ackP99Ms) }, { name: t('commitP99'), color: 'chart-1', values: measured((s) => s.commitP99Ms) }]} />
      <Chart title={t('connections')} unit="" times={times} lines={[{ name: t('connections'), color: 'chart-1', values: of((s) => s.connections) }]} />
      <p className="quiet chart-note">{t('longerTimes')} <Guide page="observe.md#figures">{t('guide')}</Guide></p>
    </section>
  )
}

function stateOf(n: NodeReportJson, tr: Translation): ReactNode {
  if (!n.answered) return <Mark look="bad">{tr.t(n.alive ? 'stateSilent' : 'stateGone')}</Mark>
  if (n.draining) return <Mark look="warn">{tr.t('stateDraining')}</Mark>
  if (n.storage && !n.storage.writable) return <Mark look="bad">{tr.t('stateReadOnly')}</Mark>
  return <Mark look="good">{tr.t('stateUp')}</Mark>
}

interface NodesProps { readonly nodes: readonly NodeReportJson[]; readonly now: number; readonly partitions: number; readonly unowned: readonly number[]; readonly misplaced: number }

function Nodes({ nodes, now, partitions, unowned, misplaced }: NodesProps): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { node: chosen = '' } = useAddress().query
  const columns: readonly Column<NodeReportJson>[] = [
    { title: t('node'), cell: (n) => <button type="button" className="link" aria-expanded={n.node === chosen} onClick={() => narrow({ node: n.node === chosen ? '' : n.node ?? '' }, true)}>{n.node}</button> },
    { title: t('state'), cell: (n) => stateOf(n, tr) },
    { title: t('running'), cell: (n) => n.answered ? `${span(now - Number(n.startedMs ?? now), tr)}, ${n.version ?? ''}` : n.silentSinceMs ? t('silentSince', { time: clock(n.silentSinceMs, tr) }) : '–' },
    { title: t('partitions'), end: true, cell: (n) => n.answered ? n.partitions ?? 0 : '–' },
    { title: t('connections'), end: true, cell: (n) => n.answered ? number(n.now?.connections ?? 0, tr) : '–' },
    { title: t('acceptedPerS'), end: true, cell: (n) => n.answered ? number(n.now?.accepted ?? 0, tr) : '–' },
    { title: t('ackP99'), end: true, cell: (n) => ms(n.now?.ackP99Ms, tr) },
    { title: t('commitP99'), end: true, cell: (n) => ms(n.now?.commitP99Ms, tr) },
    { title: t('sync'), end: true, cell: (n) => ms(n.storage?.syncMs, tr) },
    { title: t('cpu'), end: true, cell: (n) => n.answered ? number(n.cpu ?? 0, tr) : '–' },
    { title: t('memory'), end: true, cell: (n) => n.answered ? bytes(n.rssBytes, tr) : '–' },
  ]
  const shown = nodes.find((n) => n.node === chosen)
  return (
    <Part title={t('nodes')}>
      <Table label={t('nodes')} columns={columns} rows={nodes} keyOf={(n) => n.node ?? ''} empty={t('loading')} />
      {partitions > 0 && <p className="quiet">{[t('partitionsOf', { n: partitions }), ...unowned.length > 0 ? [t('unownedCount', { n: unowned.length })] : [], ...misplaced > 0 ? [t('misplacedCount', { n: misplaced })] : []].join(' · ')}</p>}
      {shown?.answered && <Inside node={shown} />}
    </Part>
  )
}

/** A gauge, with a meter if it has a limit. */
function Bar({ name, value, limit, text }: { readonly name: string; readonly value: number; readonly limit: number; readonly text: string }): ReactElement {
  return <div className="bar"><span className="cut" title={name}>{name}</span>{limit > 0 ? <meter aria-label={name} min={0} max={limit} high={limit * 0.8} value={Math.min(value, limit)} /> : <span />}<span className="end">{text}</span></div>
}

function Inside({ node }: { readonly node: NodeReportJson }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const amount = (name: string, v: number): string => name.startsWith('memory/') ? bytes(v, tr) : name.endsWith('_ms') ? ms(v, tr) : number(v, tr)
  const of = (g: { readonly name?: string; readonly value?: number; readonly limit?: number }): ReactElement => {
    const [name, value, limit] = [g.name ?? '', g.value ?? 0, g.limit ?? 0]
    return <Bar key={name} name={named(tr, 'gauge', name)} value={value} limit={limit} text={limit > 0 ? `${amount(name, value)} / ${amount(name, limit)}` : amount(name, value)} />
  }
  const s = node.storage
  return (
    <div className="inside">
      <section><h3>{t('queuesOf', { node: node.node ?? '' })}</h3>{(node.queues ?? []).map(of)}</section>
      <section><h3>{t('budgets')}</h3>{(node.budgets ?? []).map(of)}</section>
      {s && (
        <section>
          <h3>{t('storage')}</h3>
          <Facts of={[
            [t('kind'), s.kind === 'postgres' ? 'PostgreSQL' : t('embedded')], [t('writable'), s.writable ? t('yes') : s.why || t('no')], [t('diskUsed'), bytes(s.diskBytes, tr)], [t('diskFree'), bytes(s.freeBytes, tr)],
            ...(s.databases ?? []).map((d) => [t('database', { n: d.number ?? 0 }), d.up ? t('partitionsOf', { n: d.partitions ?? 0 }) : t('down')] as const),
            ...(s.damage ?? []).length > 0 ? [[t('damage'), <ul key="d">{s.damage?.map((d) => <li key={d}>{d}</li>)}</ul>] as const] : [],
          ]} />
        </section>
      )}
      {(node.loud ?? []).length > 0 && <section><h3>{t('loud')}</h3>{node.loud?.map((l) => <div className="bar" key={`${l.user} ${l.address} ${l.code}`}>{l.user ? <Link page="users" id={l.user} query={l.tenant && l.tenant !== 'default' ? { tenant: l.tenant } : {}}>{l.user}</Link> : <span>{l.address}</span>}<span>{l.code}</span><span className="end">{l.count}</span></div>)}</section>}
    </div>
  )
}

function Refused({ nodes }: { readonly nodes: readonly NodeReportJson[] }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const byCode = new Map<string, { code: string; calls: number; frames: number }>()
  for (const r of nodes.flatMap((n) => n.refused ?? [])) {
    const of = byCode.get(r.code ?? '') ?? { code: r.code ?? '', calls: 0, frames: 0 }
    byCode.set(of.code, { code: of.code, calls: of.calls + Number(r.calls ?? 0), frames: of.frames + Number(r.frames ?? 0) })
  }
  const rows = [...byCode.values()].sort((a, b) => b.calls + b.frames - a.calls - a.frames)
  if (rows.length === 0) return <></>
  return (
    <Part title={t('refusedByCode')}>
      <Table label={t('refusedByCode')} rows={rows} keyOf={(r) => r.code} empty="" columns={[
        { title: t('code'), cell: (r) => <Link page="refusals" query={{ code: r.code }}>{r.code}</Link> },
        { title: t('meaning'), wide: true, cell: (r) => named(tr, 'error', r.code) === r.code ? '' : named(tr, 'error', r.code) },
        { title: t('frames'), end: true, cell: (r) => number(r.frames, tr) },
        { title: t('calls'), end: true, cell: (r) => number(r.calls, tr) },
      ]} />
    </Part>
  )
}
