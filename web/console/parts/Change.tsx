import { type ReactElement, type ReactNode, useEffect, useRef, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, randomId, toast } from '../../ui/index.js'
import { CallError } from '../call.js'
import { named, useTranslation } from '../i18n/index.js'
import { Trouble } from './Trouble.js'

/** One value that a change sets. */
export interface Changed {
  readonly name: string
  readonly from: string
  readonly to: string
}

interface ChangeProps<Result> {
  readonly title: string
  readonly text?: string // what the change means for the people concerned
  readonly changes?: readonly Changed[]
  readonly action: string // on the button
  readonly danger?: boolean
  readonly ready?: boolean // false: a field is not filled in yet
  readonly done: string | ((result: Result) => string) // the toast after the change
  readonly progress?: string // shown while the change is made
  readonly children?: ReactNode // fields
  /** Makes the change. A retry after a lost answer has the same request id, so the change is made once. */
  readonly run: (requestId: string) => Promise<Result>
  readonly onClose: () => void
  readonly onDone?: () => void // called instead of onClose after the change, if the dialog is still open
}

/**
 * A dialog that asks before a change, and shows the changed values. A toast reports success. The dialog shows an
 * error, or a toast does if the operator closed the dialog while the change was made.
 */
export function Change<Result>({ title, text, changes = [], action, danger, ready = true, done, progress, children, run, onClose, onDone = onClose }: ChangeProps<Result>): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<CallError>()
  const id = useRef(randomId())
  const open = useRef(true)
  useEffect(() => {
    open.current = true
    return () => {
      open.current = false
    }
  }, [])
  const go = async (): Promise<void> => {
    setBusy(true)
    setError(undefined)
    try {
      const result = await run(id.current)
      toast(typeof done === 'string' ? done : done(result))
      if (open.current) onDone() // otherwise it would close a dialog that was opened since
    } catch (e) {
      const why = e instanceof CallError ? e : new CallError('internal', String(e))
      if (open.current) setError(why)
      else toast(`${title} ${named(tr, 'error', why.code)} ${why.code === 'network' ? '' : why.message}`)
      if (!mayHaveBeenMade(why)) id.current = randomId() // the next try is a new call, and may have other values
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={title} closeLabel={t('close')} onClose={onClose}
      foot={<><Button onClick={onClose}>{t('cancel')}</Button><Button look={danger ? 'danger-primary' : 'primary'} disabled={busy || !ready} onClick={() => void go()}>{busy ? t('working') : action}</Button></>}
    >
      <div className="dialog-body">
        {text !== undefined && <p>{text}</p>}
        {children}
        {changes.length > 0 && (
          <table className="changes">
            <caption className="unseen">{t('whatChanges')}</caption>
            <thead><tr><th scope="col">{t('what')}</th><th scope="col">{t('now')}</th><th scope="col">{t('afterwards')}</th></tr></thead>
            <tbody>{changes.map((c) => <tr key={c.name}><th scope="row">{c.name}</th><td>{c.from}</td><td className="to">{c.to}</td></tr>)}</tbody>
          </table>
        )}
        {busy && progress !== undefined && <p className="progress" role="status">{progress}</p>}
        {error && <Trouble error={error} />}
      </div>
    </Dialog>
  )
}

/** A secret that is shown once. */
export function Once({ title, text, secret, onClose }: { readonly title: string; readonly text: string; readonly secret: string; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  return (
    <Dialog title={title} closeLabel={t('close')} onClose={onClose} foot={<Button look="primary" onClick={onClose}>{t('haveKept')}</Button>}>
      <div className="dialog-body"><p>{text}</p><Secret secret={secret} /></div>
    </Dialog>
  )
}

export function Secret({ secret }: { readonly secret: string }): ReactElement {
  const { t } = useTranslation()
  const copy = (): void => void navigator.clipboard.writeText(secret).then(() => toast(t('copied')), () => {}) // the secret can be copied by hand
  return <div className="secret"><code>{secret}</code>{'clipboard' in navigator && <Button small onClick={copy}>{t('copy')}</Button>}</div>
}

/** Whether a change may have been made although the call failed: a repeat with the same request id makes it once. */
function mayHaveBeenMade({ code }: CallError): boolean {
  return ['network', 'internal', 'unavailable', 'store_stalled'].includes(code)
}
