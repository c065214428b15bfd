import { type ReactElement, useState } from 'react'
import { Button, Field, Spinner } from '../../ui/index.js'
import { call, useCall } from '../call.js'
import { ms, span } from '../formats.js'
import { useTranslation } from '../i18n/index.js'
import { Change } from '../parts/Change.js'
import { Facts, Mark, Part } from '../parts/Facts.js'
import { type Column, Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import type { ClusterNodeJson, ClusterStateJson } from '../wire/types_gen.js'

const lookMs = 1000 // between two calls; short, because the numbers show the progress of moves
const askingMs = 250 // the same while a dialog is open, because a drain takes less than a second

/** Whether a node can own partitions now. */
const takes = (n: ClusterNodeJson): boolean => Boolean(n.alive && n.reachable && !n.draining && n.roles?.includes('conv'))

/** Returns the number of partitions in each database, as a text. */
const spread = (c: ClusterStateJson): string => (c.databases ?? []).map((n, i) => `${i + 1}: ${n}`).join(', ')

type Asking = '' | 'rebalance' | 'move' | { readonly drain: ClusterNodeJson } | { readonly resume: ClusterNodeJson }

/** The nodes and their partitions, with the actions that move them. */
export function Cluster(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [asking, setAsking] = useState<Asking>('')
  const { answer: c, error } = useCall('AdminService/GetCluster', {}, asking === '' ? lookMs : askingMs)
  const several = (c?.nodes ?? []).length > 1
  const columns: readonly Column<ClusterNodeJson>[] = [
    { title: t('node'), cell: (n) => n.node },
    { title: t('state'), cell: (n) => !n.alive ? <Mark look="bad">{t('stateGone')}</Mark> : !n.reachable ? <Mark look="bad">{t('stateApart')}</Mark> : n.draining ? <Mark look="warn">{t('stateDraining')}</Mark> : takes(n) && !n.share ? <Mark look="warn"><span title={t('waitsText')}>{t('stateWaits')}</span></Mark> : <Mark look="good">{t('stateUp')}</Mark> },
    { title: t('action'), cell: (n) => !several ? null : n.draining ? <Button small onClick={() => setAsking({ resume: n })}>{t('resume')}</Button> : <Button small look="danger" disabled={!n.alive} onClick={() => setAsking({ drain: n })}>{t('drain')}</Button> },
    { title: t('roles'), cell: (n) => (n.roles ?? []).join(', ') },
    { title: t('running'), cell: (n) => n.alive ? `${n.startedMs ? span(Date.now() - Number(n.startedMs), tr) : '–'}, ${n.version ?? ''}` : '–' },
    { title: t('partitions'), end: true, cell: (n) => <span title={(n.partitions ?? []).join(', ')}>{n.owned ?? 0} / {n.share ?? 0}<meter aria-label={t('ownedOfShare', { node: n.node ?? '' })} min={0} max={Math.max(n.share ?? 0, n.owned ?? 0, 1)} value={n.owned ?? 0} /></span> },
    { title: t('skew'), end: true, cell: (n) => n.alive ? `${n.skewMs ?? 0} ms` : '–' }, { title: t('silentFor'), end: true, cell: (n) => n.alive ? ms(n.silentMs, tr) : span(n.silentMs ?? 0, tr) },
    { title: t('addresses'), wide: true, cell: (n) => (n.addresses ?? []).join(', ') },
  ]
  return (
    <div className="page">
      <header className="page-head">
        <h1>{t('cluster')}</h1><span className="space" />
        {several && <Button small onClick={() => setAsking('rebalance')}>{t('rebalance')}</Button>}
        {(c?.databases ?? []).length > 1 && <Button small onClick={() => setAsking('move')}>{t('movePartition')}</Button>}
      </header>
      {error && <Trouble error={error} />}
      {!c && !error && <Spinner label={t('loading')} />}
      {c && (
        <>
          {c.storeGone && <p className="trouble">{t('storeGone')}</p>}
          <Facts of={[
            [t('partitions'), c.partitions ?? 0], [t('unowned'), (c.unowned ?? []).length === 0 ? '0' : <Mark key="u" look="bad">{`${c.unowned?.length}: ${c.unowned?.slice(0, 20).join(', ')}`}</Mark>], [t('moving'), c.misplaced ?? 0],
            [t('databases'), (c.databases ?? []).length === 0 ? t('embedded') : spread(c)], [t('formatLevel'), c.level ?? 0], [t('answeredBy'), c.answeredBy ?? ''],
          ]} />
          <Part title={t('nodes')}><Table label={t('nodes')} columns={columns} rows={c.nodes ?? []} keyOf={(n) => n.node ?? ''} empty={t('loading')} /></Part>
          {asking !== '' && <Ask asking={asking} c={c} onClose={() => setAsking('')} />}
        </>
      )}
    </div>
  )
}

function Ask({ asking, c, onClose }: { readonly asking: Exclude<Asking, ''>; readonly c: ClusterStateJson; readonly onClose: () => void }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [before] = useState(c)
  const [partition, setPartition] = useState('')
  const [database, setDatabase] = useState('')
  if (asking === 'rebalance') {
    const takers = (before.nodes ?? []).filter(takes)
    const share = Math.round((before.partitions ?? 0) / takers.length)
    const changes = takers.filter((n) => Math.abs((n.owned ?? 0) - share) > 1).map((n) => ({ name: n.node ?? '', from: t('partitionsOf', { n: n.owned ?? 0 }), to: t('aboutPartitions', { n: share }) }))
    const left = (of: ClusterStateJson): number => (of.misplaced ?? 0) + (of.unowned ?? []).length
    return <Change title={t('rebalanceTitle')} text={t('rebalanceText')} changes={changes} action={t('rebalance')} done={(now) => left(now) > 0 ? t('partitionsLeft', { n: left(now) }) : t('doneRebalanced')} progress={t('partitionsLeft', { n: left(c) })} run={() => call('AdminService/RebalanceCluster', {})} onClose={onClose}>{changes.length === 0 && <p>{t('sharesAreEven')}</p>}</Change>
  }
  if (asking === 'move') {
    const ready = /^\d+$/.test(partition) && Number(partition) < (c.partitions ?? 0) && /^[1-9]\d*$/.test(database) && Number(database) <= (c.databases ?? []).length
    return (
      <Change title={t('movePartition')} text={t('moveText')} changes={ready ? [{ name: t('partitionNumber', { n: partition }), from: t('itsDatabase'), to: t('database', { n: database }) }] : []} ready={ready} action={t('move')} done={({ tookMs }) => t('doneMoved', { n: partition, database, time: ms(tookMs, tr) })} progress={`${t('databases')}: ${spread(c)}`} run={() => call('AdminService/MovePartition', { partition: Number(partition), database: Number(database) })} onClose={onClose}>
        <Field label={t('partition')} inputMode="numeric" value={partition} onChange={(e) => setPartition(e.target.value)} />
        <Field label={t('databaseNumber')} inputMode="numeric" value={database} onChange={(e) => setDatabase(e.target.value)} />
      </Change>
    )
  }
  if ('drain' in asking) {
    const { node = '', owned = 0 } = asking.drain
    const left = c.nodes?.find((n) => n.node === node)?.owned ?? 0
    return <Change danger title={t('drainTitle', { node })} text={t('drainText')} changes={[{ name: t('partitions'), from: String(owned), to: '0' }, { name: t('state'), from: t('stateUp'), to: t('stateDraining') }]} action={t('drain')} done={({ partitions = 0, sessions = 0, tookMs }) => t('doneDrained', { node, partitions, sessions, time: ms(tookMs, tr) })} progress={t('partitionsLeft', { n: left })} run={() => call('AdminService/DrainNode', { node })} onClose={onClose} />
  }
  const { node = '' } = asking.resume
  return <Change title={t('resumeTitle', { node })} text={t('resumeText')} changes={[{ name: t('state'), from: t('stateDraining'), to: t('stateUp') }]} action={t('resume')} done={t('doneChanged')} run={() => call('AdminService/ResumeNode', { node })} onClose={onClose} />
}
