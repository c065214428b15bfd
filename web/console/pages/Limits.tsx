import { type ReactElement, useState } from 'react'
import { Button, Spinner } from '../../ui/index.js'
import { call, CallError, useCall } from '../call.js'
import { bytes } from '../formats.js'
import { type Translation, useTranslation } from '../i18n/index.js'
import { Change, type Changed } from '../parts/Change.js'
import { Trouble } from '../parts/Trouble.js'
import type { ClusterLimitsJson, ServerLimitsJson } from '../wire/types_gen.js'

type Limit = keyof ServerLimitsJson

const limits: readonly Limit[] = ['connections', 'connectionsPerUser', 'connectionsPerIp', 'newConnectionsPerIpPerS', 'unauthenticated', 'unauthenticatedPerIp', 'sendsPerS', 'sendBurst', 'windowSends', 'windowBytes', 'outboxBytes']

const lookMs = 5000

const camel = (name: string): Limit => name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase()) as Limit
const say = (v: string | undefined, { t }: Translation): string => Number(v ?? 0) < 0 ? t('noLimit') : v ?? '0'

/** Returns the values of a limit, each with the nodes that have it. */
function valuesOf(name: Limit, { nodes = [] }: ClusterLimitsJson): readonly (readonly [string, readonly string[]])[] {
  const by = new Map<string, string[]>()
  for (const n of nodes) {
    const value = n.limits?.[name] ?? '0'
    by.set(value, [...by.get(value) ?? [], n.node ?? ''])
  }
  return [...by]
}

/** The limits of all nodes. The nodes are asked for a preview before a change is made. */
export function Limits(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error, again } = useCall('AdminService/GetLimits', {}, lookMs)
  const [typed, setTyped] = useState<Readonly<Partial<Record<Limit, string>>>>({})
  const [asking, setAsking] = useState<{ readonly changes: readonly Changed[]; readonly silent: readonly string[] }>()
  const [missed, setMissed] = useState<readonly string[]>([]) // nodes that did not answer the last change
  const [refused, setRefused] = useState<CallError>()
  const values = (name: Limit): ReturnType<typeof valuesOf> => answer ? valuesOf(name, answer) : []
  const wanted = Object.fromEntries(Object.entries(typed).filter(([name, v]) => /^-?\d+$/.test(v) && v !== '0' && values(name as Limit).some(([now]) => now !== v))) as ServerLimitsJson
  const wrong = (name: Limit): boolean => typed[name] !== undefined && (!/^-?\d+$/.test(typed[name]) || Number(typed[name]) === 0)
  const preview = async (): Promise<void> => {
    setRefused(undefined)
    try {
      const { changes = [], silent = [] } = await call('AdminService/PreviewLimits', wanted)
      setAsking({ silent, changes: changes.map((c) => ({ name: [t(`limit_${camel(c.name ?? '')}`), ...c.nodes ? [c.nodes.join(', ')] : []].join(' · '), from: say(c.from, tr), to: say(c.to, tr) })) })
    } catch (e) {
      setRefused(e instanceof CallError ? e : new CallError('internal', String(e)))
    }
  }
  const apply = async (): Promise<void> => {
    const { silent = [] } = await call('AdminService/SetLimits', wanted)
    setMissed(silent)
    setTyped({})
    again()
  }
  return (
    <div className="page">
      <header className="page-head"><h1>{t('limits')}</h1></header>
      <p className="quiet">{t('limitsText')}</p>
      {error && <Trouble error={error} />}
      {answer && limits.some((name) => values(name).length > 1) && <p className="trouble" role="status">{t('limitsDiffer')}</p>}
      {(answer?.silent ?? []).length > 0 && <p className="trouble" role="status">{t('limitsSilent', { nodes: answer?.silent?.join(', ') ?? '' })}</p>}
      {missed.length > 0 && <p className="trouble" role="status">{t('limitsNotOn', { nodes: missed.join(', ') })}</p>}
      {!answer && !error && <Spinner label={t('loading')} />}
      {answer && (
        <form onSubmit={(e) => { e.preventDefault(); void preview() }}>
          <div className="table-box"><table className="table">
            <caption className="unseen">{t('limits')}</caption>
            <thead><tr><th scope="col" className="wide">{t('limit')}</th><th scope="col" className="end">{t('now')}</th><th scope="col">{t('newValue')}</th></tr></thead>
            <tbody>{limits.map((name) => (
              <tr key={name}>
                <th scope="row" className="wide">{t(`limit_${name}`)}<br /><span className="quiet">{t(`about_${name}` )}</span></th>
                <td className="end" data-title={t('now')}>{values(name).map(([value, nodes], _, { length }) => (
                  <div key={value}>{length > 1 && <span className="quiet">{nodes.join(', ')}: </span>}{say(value, tr)}{name.endsWith('Bytes') && Number(value) > 0 && <span className="quiet"> {bytes(value, tr)}</span>}</div>
                ))}</td>
                <td data-title={t('newValue')}><input className="field-input" inputMode="numeric" aria-label={t('newValueOf', { name: t(`limit_${name}`) })} aria-invalid={wrong(name)} value={typed[name] ?? ''} placeholder={values(name)[0]?.[0]} onChange={(e) => setTyped({ ...typed, [name]: e.target.value.trim() || undefined } as typeof typed)} /></td>
              </tr>
            ))}</tbody>
          </table></div>
          {refused && <Trouble error={refused} />}
          <div className="table-foot"><span className="space" /><Button look="primary" type="submit" disabled={Object.keys(wanted).length === 0 || limits.some(wrong)}>{t('previewChanges')}</Button></div>
        </form>
      )}
      {asking && (
        <Change title={t('changeLimits')} text={asking.changes.length === 0 ? t('nothingChanges') : t('changeLimitsText')} changes={asking.changes} ready={asking.changes.length > 0} action={t('apply')} done={t('doneLimits')} run={apply} onClose={() => setAsking(undefined)}>
          {asking.silent.length > 0 && <p className="trouble">{t('limitsSilent', { nodes: asking.silent.join(', ') })}</p>}
        </Change>
      )}
    </div>
  )
}
