import type { Conversation, Message } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { ownNameOf } from '../account/useName.js'
import { activeIn, IconButton, isComposing, useToast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { ConfirmDialog } from '../info/ConfirmDialog.js'
import { useOfClient } from '../clientSnapshot.js'
import { usePutAway } from './hiddenMessages.js'
import { copy } from './copyText.js'
import { thrownText } from './failureText.js'
import { ForwardDialog } from './ForwardDialog.js'
import { chosenOf, type Selection, textsOf } from './selection.js'

interface SelectBarProps {
  readonly selection: Selection
  readonly conversation: Conversation
  readonly onEnd: () => void
}

/** The bar with the actions on the selected messages, in place of the composer. */
export default function SelectBar({ selection, conversation: v, onEnd }: SelectBarProps): ReactElement {
  const translation = useLaterTranslation()
  const { t } = translation
  const client = useClient()
  const { user, profiles } = useSession()
  const toast = useToast()
  const { hide } = usePutAway()
  const [open, setOpen] = useState<'forward' | 'recall' | 'hide' | undefined>(undefined)
  const bar = useRef<HTMLDivElement>(null)
  const chosen = chosenOf(selection, useOfClient((c) => c.messages(v.id)))
  const leads = v.role === 'owner' || v.role === 'admin'
  const mayRecall = !v.left && chosen.length > 0 && chosen.every((m) => leads || m.from === user)
  useEndKey(open === undefined, onEnd)
  useLayoutEffect(() => { // the field is hidden, so the bar takes the focus, unless it is on a message
    const active = bar.current && activeIn(bar.current)
    if (!(active instanceof Element && active.closest('[data-key]'))) bar.current?.querySelector('button')?.focus()
  }, [])
  const copyTexts = (): void => {
    copy(textsOf(chosen, (of) => ownNameOf(profiles, of), translation)).then(() => {
      toast(t('copied'))
      onEnd()
    }, (why: unknown) => toast(thrownText(why, t)))
  }
  return (
    <div className="select-bar" ref={bar} role="toolbar" aria-label={t('selected', { n: chosen.length })}>
      <IconButton icon="close" label={t('cancel')} onClick={onEnd} />
      <span className="select-count cut" role="status">{t('selected', { n: chosen.length })}</span>
      <IconButton icon="copy" label={t('copy')} disabled={!chosen.some((m) => m.text !== undefined)} onClick={copyTexts} />
      <IconButton icon="forward" label={t('forward')} disabled={chosen.length === 0} onClick={() => setOpen('forward')} />
      <IconButton icon="eyeOff" label={t('hide')} disabled={chosen.length === 0} onClick={() => setOpen('hide')} />
      {mayRecall && <IconButton icon="trash" label={t('recall')} className="select-recall" onClick={() => setOpen('recall')} />}
      {open === 'forward' && <ForwardDialog messages={chosen} onClose={() => setOpen(undefined)} onSent={onEnd} />}
      {open === 'hide' && <ConfirmDialog text={t('hideQuestion', { n: chosen.length })} yes="hide" act={() => hide(chosen).finally(onEnd)} onClose={() => setOpen(undefined)} />}
      {open === 'recall' && <ConfirmDialog text={t('recallSelected', { n: chosen.length })} yes="recall" act={() => recallAll(chosen, (m) => client.recall(m.conv, m.seq)).finally(onEnd)} onClose={() => setOpen(undefined)} />}
    </div>
  )
}

async function recallAll(messages: readonly Message[], recall: (m: Message) => Promise<unknown>): Promise<void> {
  for (const m of messages) await recall(m)
}

/** Ends the selection on Escape, wherever the focus is. An open dialog or menu is closed first. */
function useEndKey(on: boolean, end: () => void): void {
  useEffect(() => {
    if (!on) return undefined
    const pressed = (e: KeyboardEvent): void => {
      if (e.key !== 'Escape' || isComposing(e) || document.querySelector('dialog[open], [popover="auto"]:popover-open')) return
      e.preventDefault()
      e.stopPropagation()
      end()
    }
    addEventListener('keydown', pressed, true)
    return () => removeEventListener('keydown', pressed, true)
  }, [end, on])
}
