import { type ReactElement, type ReactNode, useEffect, useId, useRef } from 'react'
import { IconButton } from './controls.js'
import { isComposing } from './composing.js'
import { activeIn } from './roots.js'

interface DialogProps {
  readonly title: string
  readonly closeLabel: string
  readonly onClose: () => void
  readonly children: ReactNode
  readonly foot?: ReactNode
}

/** A window over the page. The focus stays in it, and goes back where it was. */
export function Dialog({ title, closeLabel, onClose, children, foot }: DialogProps): ReactElement {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = ref.current
    const active = dialog && activeIn(dialog)
    const wanted = dialog?.contains(active) ? active : undefined // which has autoFocus
    if (dialog && !dialog.open) dialog.showModal()
    if (wanted instanceof HTMLElement) wanted.focus()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      className="dialog" ref={ref} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose() }}
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
