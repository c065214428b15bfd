import { type ReactElement, type ReactNode, useEffect, useId, useLayoutEffect, useRef } from 'react'
import { IconButton } from './controls.js'
import { isComposing } from './composing.js'
import { pullable } from './sheet.js'

interface DialogProps {
  readonly title: string
  readonly closeLabel: string
  readonly onClose: () => void
  readonly children: ReactNode
  readonly foot?: ReactNode
  readonly sheet?: boolean // on a phone it is at the lower edge
}

const field = 'input'
const fieldOnPhone = `${field}:not([type="search"])` // on a phone the keyboard would cover the results of a search

/**
 * A modal dialog. The focus stays in it, at first in its first field, and goes back to the former element at the end.
 */
export function Dialog({ title, closeLabel, onClose, children, foot, sheet = false }: DialogProps): ReactElement {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = ref.current
    if (dialog && !dialog.open) dialog.showModal()
    dialog?.querySelector<HTMLElement>(matchMedia('(pointer: fine)').matches ? field : fieldOnPhone)?.focus() // autoFocus of React takes effect before the dialog is open, and is lost
  }, [])
  useEffect(() => sheet && ref.current ? pullable(ref.current, onClose) : undefined, [sheet, onClose])
  useLayoutEffect(() => {
    const dialog = ref.current
    return () => dialog?.close() // before it leaves the page: afterwards the browser does not restore the focus
  }, [])
  return (
    <dialog
      className={sheet ? 'dialog dialog-sheet' : 'dialog'} ref={ref} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose() }}
      onKeyDown={(e) => { if (e.key === 'Escape' && isComposing(e)) e.stopPropagation() }}
      onMouseDown={(e) => { if (e.target === e.currentTarget) onClose() }}
    >
      <div className="dialog-head">
        <h2 id={id}>{title}</h2>
        <IconButton icon="close" label={closeLabel} onClick={onClose} />
      </div>
      {children}
      {foot !== undefined && <div className="dialog-foot">{foot}</div>}
    </dialog>
  )
}
