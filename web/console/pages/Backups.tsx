import type { ReactElement } from 'react'
import { useCall } from '../call.js'
import { bytes, span, time } from '../formats.js'
import { useTranslation } from '../i18n/index.js'
import { useLive } from '../live.js'
import { Facts, Mark, Part } from '../parts/Facts.js'
import { type Column, Listing } from '../parts/Table.js'
import { may } from '../session.js'
import type { BackupInfoJson } from '../wire/types_gen.js'

/** The backups that petrel backup has made, the result of their last verification, and the damage of the stores. */
export function Backups(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error } = useCall('AdminService/ListBackups', {}, 10_000)
  const columns: readonly Column<BackupInfoJson>[] = [
    { title: t('made'), cell: (b) => time(b.madeMs, tr), text: (b) => new Date(Number(b.madeMs ?? 0)).toISOString() },
    { title: t('folder'), wide: true, cell: (b) => <code>{b.folder}</code>, text: (b) => b.folder ?? '' },
    { title: t('size'), end: true, cell: (b) => bytes(b.bytes, tr), text: (b) => Number(b.bytes ?? 0) }, { title: t('copiedBytes'), end: true, cell: (b) => bytes(b.copiedBytes, tr), text: (b) => Number(b.copiedBytes ?? 0) },
    { title: t('took'), end: true, cell: (b) => span(Number(b.tookMs ?? 0), tr), text: (b) => Number(b.tookMs ?? 0) }, { title: t('upToCommit'), end: true, cell: (b) => b.commit ?? 0, text: (b) => Number(b.commit ?? 0) },
    { title: t('verified'), cell: (b) => Number(b.verifiedMs ?? 0) === 0 ? <Mark look="warn">{t('neverVerified')}</Mark> : <><Mark look={b.sound ? 'good' : 'bad'}>{t(b.sound ? 'sound' : 'unsound')}</Mark> {time(b.verifiedMs, tr)} {b.fault}</>, text: (b) => Number(b.verifiedMs ?? 0) === 0 ? '' : b.sound ? 'sound' : b.fault ?? 'unsound' },
  ]
  const list = { rows: answer?.backups ?? [], next: '' }
  return (
    <div className="page">
      <header className="page-head"><h1>{t('backups')}</h1></header>
      <p className="quiet">{t(answer?.kind === 'postgres' ? 'backupsPostgres' : 'backupsText')}</p>
      <Listing name="backups" label={t('backups')} columns={columns} keyOf={(b) => `${b.folder} ${b.name}`} empty={t('noBackups')} page={answer && list} error={error} load={async () => list} />
      {may('server') && <Damage />}
    </div>
  )
}

function Damage(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const nodes = (useLive().overview?.nodes ?? []).filter((n) => n.storage)
  return (
    <Part title={t('damage')}>
      <p className="quiet">{t('damageText')}</p>
      {nodes.map((n) => <Facts key={n.node} of={[
        [t('node'), n.node], [t('lastScrub'), Number(n.storage?.scrubMs ?? 0) === 0 ? t('never') : time(n.storage?.scrubMs, tr)], [t('damageMet'), n.storage?.damageMet ?? 0],
        [t('damagedPlaces'), (n.storage?.damage ?? []).length === 0 ? <Mark key="m" look="good">{t('none')}</Mark> : <ul key="m" className="plain">{n.storage?.damage?.map((d) => <li key={d}><code>{d}</code></li>)}</ul>],
      ]} />)}
    </Part>
  )
}
