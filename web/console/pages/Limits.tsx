import { type ReactElement, useState } from 'react'
import { Button, Spinner } from '../../ui/index.js'
import { call, CallError, useCall } from '../call.js'
import { bytes } from '../formats.js'
import { type Translation, useTranslation } from '../i18n/index.js'
import { Change, type Changed } from '../parts/Change.js'
import { Trouble } from '../parts/Trouble.js'
import type { ServerLimitsJson } from '../wire/types_gen.js'

type Limit = keyof ServerLimitsJson

const limits: readonly Limit[] = ['connections', 'connectionsPerUser', 'connectionsPerIp', 'newConnectionsPerIpPerS', 'unauthenticated', 'unauthenticatedPerIp', 'sendsPerS', 'sendBurst', 'windowSends', 'windowBytes', 'outboxBytes']

const camel = (name: string): Limit => name.replace(/_(\w)/g, (_, c: string) => c.toUpperCase()) as Limit
const say = (v: string | undefined, { t }: Translation): string => Number(v ?? 0) < 0 ? t('noLimit') : v ?? '0'

/** The limits of the server that answers. What a change does is asked of the server before it is done. */
export function Limits(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { answer, error, again } = useCall('AdminService/GetLimits', {})
  const [typed, setTyped] = useState<Readonly<Partial<Record<Limit, string>>>>({})
  const [changes, setChanges] = useState<readonly Changed[]>()
  const [refused, setRefused] = useState<CallError>()
  const wanted = Object.fromEntries(Object.entries(typed).filter(([name, v]) => /^-?\d+$/.test(v) && v !== '0' && v !== answer?.[name as Limit])) as ServerLimitsJson
  const wrong = (name: Limit): boolean => typed[name] !== undefined && (!/^-?\d+$/.test(typed[name]) || Number(typed[name]) === 0)
  const preview = async (): Promise<void> => {
    setRefused(undefined)
    try {
      const { changes: all = [] } = await call('AdminService/PreviewLimits', wanted)
      setChanges(all.map((c) => ({ name: t(`limit_${camel(c.name ?? '')}`), from: say(c.from, tr), to: say(c.to, tr) })))
    } catch (e) {
      setRefused(e instanceof CallError ? e : new CallError('internal', String(e)))
    }
  }
  return (
    <div className="page">
      <header className="page-head"><h1>{t('limits')}</h1></header>
      <p className="quiet">{t('limitsText')}</p>
      {error && <Trouble error={error} />}
      {!answer && !error && <Spinner label={t('loading')} />}
      {answer && (
        <form onSubmit={(e) => { e.preventDefault(); void preview() }}>
          <div className="table-box"><table className="table">
            <caption className="unseen">{t('limits')}</caption>
            <thead><tr><th scope="col" className="wide">{t('limit')}</th><th scope="col" className="end">{t('now')}</th><th scope="col">{t('newValue')}</th></tr></thead>
            <tbody>{limits.map((name) => (
              <tr key={name}>
                <th scope="row" className="wide">{t(`limit_${name}`)}<br /><span className="quiet">{t(`about_${name}` )}</span></th>
                <td className="end">{say(answer[name], tr)}{name.endsWith('Bytes') && Number(answer[name]) > 0 && <span className="quiet"> {bytes(answer[name], tr)}</span>}</td>
                <td><input className="field-input" inputMode="numeric" aria-label={t('newValueOf', { name: t(`limit_${name}`) })} aria-invalid={wrong(name)} value={typed[name] ?? ''} placeholder={answer[name] ?? '0'} onChange={(e) => setTyped({ ...typed, [name]: e.target.value.trim() || undefined } as typeof typed)} /></td>
              </tr>
            ))}</tbody>
          </table></div>
          {refused && <Trouble error={refused} />}
          <div className="table-foot"><span className="space" /><Button look="primary" type="submit" disabled={Object.keys(wanted).length === 0 || limits.some(wrong)}>{t('previewChanges')}</Button></div>
        </form>
      )}
      {changes && <Change title={t('changeLimits')} text={changes.length === 0 ? t('nothingChanges') : t('changeLimitsText')} changes={changes} ready={changes.length > 0} action={t('apply')} done={t('doneLimits')} run={async () => { await call('AdminService/SetLimits', wanted); setTyped({}); again() }} onClose={() => setChanges(undefined)} />}
    </div>
  )
}
