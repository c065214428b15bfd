import type { ReactElement } from 'react'
import { useAddress } from '../address.js'
import { call, useCall } from '../call.js'
import { clock } from '../formats.js'
import { type Translation, useTranslation } from '../i18n/index.js'
import { Mark } from '../parts/Facts.js'
import { Filter, Select } from '../parts/Filter.js'
import { type Column, Listing } from '../parts/Table.js'
import type { LogLineJson } from '../wire/types_gen.js'

const lookMs = 2000

function columnsOf(tr: Translation): readonly Column<LogLineJson>[] {
  const { t } = tr
  return [
    { title: t('time'), cell: (l) => clock(l.timeMs, tr), text: (l) => new Date(Number(l.timeMs ?? 0)).toISOString() },
    { title: t('level'), cell: (l) => <Mark look={l.level === 'ERROR' ? 'bad' : l.level === 'WARN' ? 'warn' : 'quiet'}>{l.level}</Mark>, text: (l) => l.level ?? '' },
    { title: t('node'), cell: (l) => l.node, text: (l) => l.node ?? '' },
    { title: t('text'), wide: true, cell: (l) => <>{l.text} <code className="quiet">{l.attrs}</code></>, text: (l) => `${l.text ?? ''} ${l.attrs ?? ''}`.trim() },
  ]
}

/** The last lines of the log of all nodes, the newest first. */
export function Log(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { level = '', node = '', contains = '' } = useAddress().query
  const request = { level, node, contains, limit: 200 }
  const { answer, error } = useCall('AdminService/ReadLog', request, lookMs)
  const newest = (lines: readonly LogLineJson[] = []): readonly LogLineJson[] => lines.toReversed()
  return (
    <div className="page">
      <header className="page-head"><h1>{t('log')}</h1></header>
      <p className="quiet">{t('logText')}</p>
      <div className="filters">
        <Filter name="contains" label={t('containsFilter')} />
        <Select name="level" label={t('level')} of={[['', t('allLevels')], ['INFO', t('levelInfo')], ['WARN', t('levelWarn')], ['ERROR', t('levelError')]]} />
        <Filter name="node" label={t('nodeFilter')} />
      </div>
      {(answer?.silent ?? []).length > 0 && <p className="trouble">{t('silentNodesText', { nodes: answer?.silent?.join(', ') ?? '' })}</p>}
      <Listing name="log" label={t('log')} columns={columnsOf(tr)} keyOf={(l) => [l.node, l.timeMs, l.text, l.attrs].join(' ')} empty={t('noLines')} page={answer && { rows: newest(answer.lines), next: '' }} error={error} load={async () => ({ rows: newest((await call('AdminService/ReadLog', { ...request, limit: 2000 })).lines), next: '' })} />
    </div>
  )
}
