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
  readonly sheet?: boolean // on a phone it stands at the lower edge
}

const writable = 'input:not([type="radio"])'
const writableOnPhone = `${writable}:not([type="search"])` // whose keyboard would cover what is searched

/** A window over the page. The focus stays in it, in the first field if there is one, and goes back where it was. */
export function Dialog({ title, closeLabel, onClose, children, foot, sheet = false }: DialogProps): ReactElement {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const dialog = ref.current
    if (dialog && !dialog.open) dialog.showModal()
    dialog?.querySelector<HTMLElement>(matchMedia('(pointer: fine)').matches ? writable : writableOnPhone)?.focus() // autoFocus of React comes before it is open, so it is lost
  }, [])
  useEffect(() => sheet && ref.current ? pullable(ref.current, onClose) : undefined, [sheet, onClose])
  useLayoutEffect(() => {
    const dialog = ref.current
    return () => dialog?.close() // while it is in the page still: out of it the browser does not give the focus back
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
