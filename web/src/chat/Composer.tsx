import type { Conversation, Message, Outgoing } from '@petrel-im/sdk'
import { useClient, useStatus } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, type RefObject, useCallback, useContext, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react'
import { activeIn, enterSends, Icon, IconButton, isComposing, useToast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { draftOf, keepDraft, onDraft } from '../drafts.js'
import { Emojis } from '../emoji/Emojis.js'
import { useEnvironment } from '../environment.js'
import { page } from '../pageMeta.js'
import { useTranslation } from '../i18n/index.js'
import { Completion, type Completed, useCompletion } from './Completion.js'
import { thrownText } from './failureText.js'
import { lengthOf } from './textLength.js'
import { mentionedIn, useMembers } from './useMembers.js'
import { usePlain } from './plainText.js'
import { useName } from '../account/useName.js'
import { PutOff } from './WaitLine.js'

export type Intent = { readonly kind: 'reply' | 'edit'; readonly message: Message } | undefined

export interface ComposerControl {
  readonly focus: () => void
  /** Inserts a text at the cursor. */
  readonly insert: (text: string) => void
}

interface ComposerProps {
  readonly chat: string // the key of the draft
  readonly conv: string
  readonly peer: string
  readonly thread?: number // seq of the root of the thread that is written to
  readonly label?: string // of the field
  readonly conversation: Conversation | undefined
  readonly pending: readonly Outgoing[]
  readonly intent: Intent
  readonly onIntent: (intent: Intent) => void
  readonly lastOwn: () => Message | undefined
  readonly control: RefObject<ComposerControl | null>
}

/**
 * The field for messages. The browser owns its text: nothing here sets the text while the person writes, so no
 * input method is disturbed. The only exception: an emoji replaces its name, when no input method is composing.
 */
export function Composer({ chat, conv, peer, thread, label, conversation, pending, intent, onIntent, lastOwn, control }: ComposerProps): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user } = useStatus()
  const session = useSession()
  const { takesFocus, sent } = useEnvironment()
  const toast = useToast()
  const field = useRef<HTMLTextAreaElement>(null)
  const [empty, setEmpty] = useState(() => draftOf(session.account, chat) === '')
  const [length, setLength] = useState(() => shownLength(draftOf(session.account, chat)))
  const [emoji, setEmoji] = useState(false)
  const members = useMembers(conversation?.kind === 'group' ? conversation : undefined)
  const completion = useCompletion(members, user, conversation?.role === 'owner' || conversation?.role === 'admin')

  const grow = useCallback(() => {
    const f = field.current
    if (!f || CSS.supports('field-sizing', 'content')) return
    f.style.height = 'auto'
    f.style.height = `${f.scrollHeight}px`
  }, [])

  const setText = useCallback((text: string) => {
    const f = field.current
    if (!f) return
    f.value = text
    setEmpty(text.trim() === '')
    setLength(shownLength(text))
    grow()
  }, [grow])

  useLayoutEffect(grow, [grow])
  useEffect(() => { // the members may become known only after the @ is written
    if (field.current && field.current === activeIn(field.current)) completion.look(field.current)
  }, [members])
  useEffect(() => {
    if (field.current && takesFocus(field.current) && matchMedia('(pointer: fine)').matches) field.current.focus({ preventScroll: true })
  }, [takesFocus])

  const noEmoji = useCallback(() => setEmoji(false), [])

  // An edit uses the field, and puts the draft back when it ends.
  const editing = intent?.kind === 'edit' ? intent.message : undefined
  const edited = useRef<Message | undefined>(undefined)
  useEffect(() => {
    if (editing === edited.current) return
    if (editing) setText(editing.text ?? '')
    else setText(draftOf(session.account, chat))
    edited.current = editing
  }, [editing, setText, session.account, chat])
  useEffect(() => {
    if (intent) field.current?.focus()
  }, [intent])

  // The field takes over the draft of another tab when nobody writes in it, at the latest when it loses the focus.
  const missed = useRef(false)
  const composing = useRef(false)
  const takeDraft = useCallback((isLeft = false) => {
    const f = field.current
    missed.current = !f || composing.current || !isLeft && f === activeIn(f) && document.hasFocus()
    if (!missed.current && !edited.current && f?.value !== draftOf(session.account, chat)) setText(draftOf(session.account, chat))
  }, [chat, session.account, setText])
  useEffect(() => onDraft(session.account, chat, takeDraft), [chat, session.account, takeDraft])
  const left = (): void => {
    completion.close()
    if (missed.current) takeDraft(true)
  }

  const changed = (): void => {
    const f = field.current
    if (!f) return
    setEmpty(f.value.trim() === '')
    setLength(shownLength(f.value))
    grow()
    completion.look(f)
    if (editing) return
    missed.current = false // the text that is written here is newer
    keepDraft(session.account, chat, f.value)
    if (f.value !== '' && conv !== '') client.typing(conv)
  }

  const send = (): void => {
    const f = field.current
    const text = f?.value.trim() ?? ''
    if (!f || text === '' || length.over > 0) return
    setText('')
    setEmoji(false)
    completion.close()
    if (editing) {
      onIntent(undefined)
      if (text !== editing.text) client.editText(editing.conv, editing.seq, text).catch((why: unknown) => toast(thrownText(why, t)))
      return
    }
    const draft = draftOf(session.account, chat) // removed only when the message is stored, so that a reload in between loses nothing
    const { mentions, all } = mentionedIn(text, members, user)
    client.send({
      ...(conv ? { conv } : { user: peer }), text,
      ...(thread ? { thread } : {}), ...(intent ? { replyTo: intent.message.seq } : {}), ...(mentions.length > 0 ? { mentions } : {}), ...(all && completion.mayAll ? { mentionAll: true } : {}),
    }).then((outgoing) => {
      if (draftOf(session.account, chat) === draft) keepDraft(session.account, chat, '')
      if (client.status().state !== 'live') client.wakeUp() // connect at once: the next try may be half a minute away
      sent(outgoing)
    }, (why: unknown) => { // the message could not be stored: it goes back into the field
      if (draftOf(session.account, chat) === draft) {
        keepDraft(session.account, chat, text)
        setText(text)
      }
      toast(thrownText(why, t))
    })
    onIntent(undefined)
  }

  const insert = (text: string, from?: number): void => {
    const f = field.current
    if (!f) return
    f.setRangeText(text, from ?? f.selectionStart, f.selectionEnd, 'end')
    changed()
    f.focus()
  }
  useImperativeHandle(control, () => ({ focus: () => field.current?.focus(), insert }))
  const complete = (c: Completed): void => {
    insert(c.text, c.from)
    completion.close()
  }

  const escaped = (e: KeyboardEvent): void => {
    if (e.key !== 'Escape' || !emoji || isComposing(e)) return
    e.stopPropagation()
    setEmoji(false)
    field.current?.focus()
  }
  const pressed = (e: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (isComposing(e)) return
    if (completion.onKeyDown(e, complete)) return
    if (e.key === 'Enter' && !e.shiftKey && !e.altKey && (enterSends() || e.ctrlKey || e.metaKey)) {
      e.preventDefault()
      send()
    } else if (e.key === 'Escape' && intent) {
      e.stopPropagation()
      onIntent(undefined)
    } else if (e.key === 'ArrowUp' && !(e.altKey || e.ctrlKey || e.metaKey || e.shiftKey) && e.currentTarget.value === '' && !intent) {
      const own = lastOwn()
      if (!own) return
      e.preventDefault()
      onIntent({ kind: 'edit', message: own })
    }
  }

  return (
    <div className="composer-place" onKeyDownCapture={escaped} onBlur={(e) => { if (e.relatedTarget && !e.currentTarget.contains(e.relatedTarget)) setEmoji(false) }}>
      <Completion state={completion.state} onChoose={complete} />
      <div className="composer">
        {intent && <IntentBar intent={intent} onCancel={() => onIntent(undefined)} />}
        <div className="composer-line">
          <IconButton icon="smile" label={t('emoji')} aria-expanded={emoji} onClick={() => setEmoji(!emoji)} />
          <textarea
            ref={field} rows={1} dir="auto" className="composer-field" aria-label={label ?? t('message')} placeholder={label ?? t('message')} defaultValue={draftOf(session.account, chat)} enterKeyHint={enterSends() ? 'send' : 'enter'}
            onInput={(e) => { setEmoji(false); changed(); completion.typed(e.currentTarget, e.nativeEvent as InputEvent) }} onPointerDown={() => setEmoji(false)} onKeyDown={pressed} onSelect={(e) => completion.look(e.currentTarget)} onBlur={left} onCompositionStart={() => { composing.current = true }} onCompositionEnd={() => { composing.current = false; if (missed.current) takeDraft() }}
            aria-autocomplete="list" aria-controls={completion.state ? 'completion' : undefined} aria-activedescendant={completion.state ? `completion-${completion.state.at}` : undefined}
          />
          <button type="button" className="composer-send" aria-label={t(editing ? 'save' : 'send')} title={t(editing ? 'save' : 'send')} disabled={empty || length.over > 0} onMouseDown={(e) => e.preventDefault()} onClick={send}>
            <Icon name={editing ? 'check' : 'send'} />
          </button>
        </div>
        <RateLine pending={pending} />
        {length.characters > 0 && <p className={length.over > 0 ? 'composer-length composer-over' : 'composer-length'} role={length.over > 0 ? 'status' : undefined}>{length.over > 0 ? t('tooLongBy', { n: length.over }) : t('characters', { n: length.characters })}</p>}
      </div>
      {emoji && <Emojis onPick={insert} onClose={noEmoji} />}
    </div>
  )
}

const nothing = { characters: 0, over: 0 }
const longCharacters = 1000 // the count is shown from this length on

/** Returns the length to show for a text: nothing for a short one. */
function shownLength(text: string): typeof nothing {
  if (text.length < longCharacters && (page.bodyBytes === 0 || 3 * text.length <= page.bodyBytes)) return nothing
  const length = lengthOf(text.trim(), page.bodyBytes)
  return length.over > 0 || length.characters >= longCharacters ? length : nothing
}

/** Says how many messages wait because the person writes faster than the server takes messages. */
function RateLine({ pending }: { readonly pending: readonly Outgoing[] }): ReactElement | null {
  const { t } = useTranslation()
  const limited = useContext(PutOff) === 'rate_limited'
  const n = limited ? pending.filter((o) => o.state === 'sending').length : 0
  return n > 0 ? <p className="composer-length" role="status">{t('rateWaiting', { n })}</p> : null
}

/** The message that is answered or edited. */
function IntentBar({ intent: { kind, message: m }, onCancel }: { readonly intent: NonNullable<Intent>; readonly onCancel: () => void }): ReactElement {
  const { t } = useTranslation()
  const { user } = useSession()
  const name = useName(m.from)
  const text = usePlain(m.text, m.rel)
  return (
    <div className="intent">
      <Icon name={kind === 'edit' ? 'write' : 'reply'} />
      <div className="intent-text">
        <div className="intent-name cut" dir="auto">{kind === 'edit' ? t('editing') : m.from === user ? t('you') : name}</div>
        <div className="cut" dir="auto">{text}</div>
      </div>
      <IconButton icon="close" label={t('cancel')} onClick={onCancel} />
    </div>
  )
}
