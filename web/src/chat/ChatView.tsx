import type { Message, Outgoing } from '@petrel-im/sdk'
import { useClient, useContact, useStatus } from '@petrel-im/sdk/react'
import { type ClipboardEvent, type DragEvent, type ReactElement, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { isComposing, type MenuPlace, useToast } from '../../ui/index.js'
import { useTranslation } from '../i18n/index.js'
import { useGo, useRoute } from '../environment.js'
import { Later } from '../Later.js'
import { useSession } from '../account/SessionContext.js'
import { isDissolved } from '../sidebar/chatList.js'
import { useChat, usePendingOf } from '../clientSnapshot.js'
import { type ChatActions, ChatContext } from './actions.js'
import { awayOf, usePutAway } from './hiddenMessages.js'
import { isAway, isBeside } from './inTimeline.js'
import { BlockedLine } from './BlockedLine.js'
import { ChatHeader } from './ChatHeader.js'
import { Composer, type ComposerControl, type Intent } from './Composer.js'
import { soon, thrownText } from './failureText.js'
import { MessageMenu, WaitingMenu } from './MessageMenu.js'
import { MissingChat } from './MissingChat.js'
import { arrange, asEdited } from './timelineRows.js'
import { type Selection, toggled } from './selection.js'
import { Timeline, type TimelineControl } from './Timeline.js'
import { PendingBubble } from './MessageBubble.js'
import { newestWaiting, PutOff, usePutOff, WaitLine } from './WaitLine.js'
import './chat.css'
import './message.css'

const loadThread = () => import('../parts.js').then((m) => m.ThreadPanel)
const loadForward = () => import('../parts.js').then((m) => m.ForwardDialog)
const loadDate = () => import('../parts.js').then((m) => m.DateDialog)
const loadConfirm = () => import('../parts.js').then((m) => m.ConfirmDialog)
const loadReact = () => import('../parts.js').then((m) => m.ReactDialog)
const loadReport = () => import('../parts.js').then((m) => m.ReportDialog)
const loadWho = () => import('../parts.js').then((m) => m.WhoDialog)
const loadFirst = () => import('../parts.js').then((m) => m.FirstMessagesLine)
const loadRequest = () => import('../parts.js').then((m) => m.ContactRequestLine)
const loadBar = () => import('../parts.js').then((m) => m.SelectBar)

const answerMs = 20_000 // a refusal for so long means that messages wait for an answer. P-14.11

type Open = { readonly kind: 'menu'; readonly message: Message; readonly at: MenuPlace } | { readonly kind: 'waiting'; readonly outgoing: Outgoing; readonly at: MenuPlace } | { readonly kind: 'forward' | 'react' | 'reacted' | 'read' | 'recall' | 'hide' | 'report'; readonly message: Message } | { readonly kind: 'date'; readonly ms: number } | undefined

/** The view of a conversation: by its id, or the direct one with a user, even before its first message. */
export function ChatView({ conv, peer }: { readonly conv: string; readonly peer: string }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const session = useSession()
  const go = useGo()
  const route = useRoute()
  const toast = useToast()
  const v = useChat(conv, peer)
  const contact = useContact(v?.peer || peer)
  const pending = usePendingOf(conv, peer)
  const refused = usePutOff(pending)
  const putOff = refused === 'rate_limited' && pending.some((o) => (o.error?.retryAfterMs ?? 0) >= answerMs) ? 'unanswered' : refused
  const { state, synced } = useStatus()
  const [intent, setIntent] = useState<Intent>(undefined)
  const [threadIntent, setThreadIntent] = useState<Intent>(undefined)
  const { hide } = usePutAway()
  const [open, setOpen] = useState<Open>(undefined)
  const [selection, setSelection] = useState<Selection | undefined>(undefined)
  const timeline = useRef<TimelineControl>(null)
  const composer = useRef<ComposerControl>(null)
  const threadComposer = useRef<ComposerControl>(null)
  const { thread } = route
  const id = v?.id ?? ''

  // Notes and receipts of a group are not all pushed, so they are loaded when the chat is shown.
  useEffect(() => {
    if (id === '' || state !== 'live') return
    client.loadNotes(id).catch(() => {}) // they also come with the next page
    if (client.conversation(id)?.kind === 'group') client.loadReceipts(id).catch(() => {})
  }, [client, id, state])
  useEffect(() => {
    if (id !== '' && client.conversation(id)?.personal.unread) client.markUnread(id, false).catch(() => {}) // after an error the mark stays
  }, [client, id])

  const openThread = useCallback((root: number) => go({ account: session.user, conv, user: conv ? '' : peer, thread: root }, root === 0), [conv, go, peer, session.user])
  const closeThread = useCallback(() => {
    openThread(0)
    if (matchMedia('(pointer: fine)').matches) requestAnimationFrame(() => composer.current?.focus())
  }, [openThread])
  const [unfolded] = useState(() => new Set<string>())
  const actions = useMemo<ChatActions>(() => {
    const said = (why: unknown): void => toast(thrownText(why, t))
    const intend = (next: NonNullable<Intent>): void => isOfThread(next.message, thread) ? setThreadIntent(next) : setIntent(next)
    return {
      reply: (message) => intend({ kind: 'reply', message }),
      edit: (message) => intend({ kind: 'edit', message }),
      forward: (message) => setOpen({ kind: 'forward', message }),
      select: (message) => setSelection((is) => toggled(is ?? new Map(), message)),
      menu: (message, at) => setOpen({ kind: 'menu', message, at }),
      waitingMenu: (outgoing, at) => setOpen({ kind: 'waiting', outgoing, at }),
      react: (m, emoji, removed) => void client.react(m.conv, m.seq, emoji, removed, soon(client)).catch(said),
      whoReacted: (message) => setOpen({ kind: 'reacted', message }),
      thread: (root) => {
        setThreadIntent(undefined)
        openThread(root)
      },
      jumpTo: (seq) => {
        const m = client.messages(id).find((one) => one.seq === seq)
        if (m?.rel && isBeside(m)) openThread(m.rel.thread)
        else void timeline.current?.jumpTo(seq).then((there) => {
          if (there === false) toast(t('quoteGone'))
        }, said)
      },
      chooseDay: (ms) => setOpen({ kind: 'date', ms }),
      again: (o) => {
        client.discard(o.id)
        void client.send(o.draft).catch(said)
      },
      change: (o) => {
        const field = o.draft.thread ? threadComposer.current : composer.current
        if (!field) return // the person is no longer a member of the group
        field.insert(o.draft.text ?? '')
        client.discard(o.id)
      },
      discard: (o) => client.discard(o.id),
      grow: () => timeline.current?.grow(),
      unfolded,
      openUser: (user) => go({ account: session.user, conv, user: conv ? '' : peer, person: user }),
    }
  }, [client, go, id, openThread, session, t, thread, toast, unfolded])

  const refuseFiles = (e: ClipboardEvent | DragEvent): void => {
    if (!isOnlyFiles('clipboardData' in e ? e.clipboardData : e.dataTransfer)) return
    e.preventDefault() // otherwise the browser opens a dropped file in place of the page
    if (e.type !== 'dragover') toast(t('noFiles'))
  }
  const close = useCallback(() => setOpen(undefined), [])
  const closeMenu = useCallback(() => setOpen((is) => is?.kind === 'menu' || is?.kind === 'waiting' ? undefined : is), []) // a dialog that the menu has opened stays
  const endSelection = useCallback(() => setSelection(undefined), [])
  const lastOwn = useCallback((): Message | undefined => {
    const own = client.messages(id).findLast((m) => m.from === session.user && !isBeside(m) && !isAway(m.seq, awayOf(client, id)) && m.text !== undefined && m.recalledBy === 0 && !m.rel?.forwarded)
    return own && asEdited(own, client.pending(id))
  }, [client, id, session.user])
  // The conversation is missing only if it is not in the list of the server; a stored list may be too old. A later
  // loss of the connection changes nothing.
  const missing = useRef(false)
  missing.current = !v && conv !== '' && (synced || missing.current)
  if (missing.current) return <MissingChat />
  return (
    <ChatContext value={actions}><PutOff value={putOff}>
      <div className={`chat${selection ? ' selecting' : ''}${thread > 0 ? ' chat-thread' : ''}`} onPaste={refuseFiles} onDragOver={refuseFiles} onDrop={refuseFiles} onKeyDown={(e) => { if (e.key === 'Escape' && !isComposing(e) && !e.defaultPrevented && !open && !(e.target as Element).closest('[role="menu"]')) composer.current?.focus() }}>
        <ChatHeader conversation={v} peer={v?.peer || peer} onJump={actions.jumpTo} onDate={() => actions.chooseDay(Date.now())} />
        {v ? <Timeline key={v.id} conversation={v} pending={pending} selection={selection} onSelect={setSelection} control={timeline} /> : <Beginning peer={peer} pending={pending} />}
        {v?.kind !== 'group' && <BlockedLine user={v?.peer || peer} />}
        {v?.personal.firstMessages && !v.personal.blocked && <Later load={loadFirst} onFailed={ignore} of={{ conversation: v, onRefused: () => go({ account: session.user }) }} />}
        {contact?.receivedMs && !v?.personal.firstMessages && <Later load={loadRequest} onFailed={ignore} of={{ contact, onDone: () => composer.current?.focus() }} />}
        {v?.left
          ? <p className="composer-none">{t(isDissolved(client, v) ? 'dissolved' : 'notMember')}</p>
          : <Composer chat={peer ? `@${peer}` : conv} conv={id || conv} peer={peer} conversation={v} pending={pending} intent={intent} onIntent={setIntent} lastOwn={lastOwn} control={composer} />}
        {thread > 0 && v && <Later key={thread} load={loadThread} onFailed={closeThread} of={{ conversation: v, root: thread, chat: peer ? `@${peer}` : conv, pending, intent: threadIntent, onIntent: setThreadIntent, control: threadComposer, onClose: closeThread }} />}
        {selection && v && <Later load={loadBar} onFailed={endSelection} of={{ selection, conversation: v, onEnd: endSelection }} />}
        {open?.kind === 'menu' && v && <MessageMenu message={open.message} at={open.at} conversation={v} inThread={isOfThread(open.message, thread)} onClose={closeMenu} onReact={(message) => setOpen({ kind: 'react', message })} onRead={(message) => setOpen({ kind: 'read', message })} onHide={(message) => setOpen({ kind: 'hide', message })} onRecall={(message) => setOpen({ kind: 'recall', message })} onReport={(message) => setOpen({ kind: 'report', message })} />}
        {open?.kind === 'waiting' && <WaitingMenu outgoing={open.outgoing} at={open.at} onClose={closeMenu} />}
        {open?.kind === 'date' && <Later load={loadDate} onFailed={close} of={{ ms: open.ms, onChoose: (ms: number) => { close(); void timeline.current?.jumpToTime(ms).catch((why: unknown) => toast(thrownText(why, t))) }, onClose: close }} />}
        {open?.kind === 'recall' && <Later load={loadConfirm} onFailed={close} of={{ text: t('recallQuestion'), yes: 'recall', act: () => client.recall(open.message.conv, open.message.seq).then(() => {}), onClose: close }} />}
        {open?.kind === 'hide' && <Later load={loadConfirm} onFailed={close} of={{ text: t('hideQuestion', { n: 1 }), yes: 'hide', act: () => hide([open.message]), onClose: close }} />}
        {open?.kind === 'report' && <Later load={loadReport} onFailed={close} of={{ user: open.message.from, message: open.message, onClose: close }} />}
        {open?.kind === 'react' && <Later load={loadReact} onFailed={close} of={{ message: open.message, onClose: close }} />}
        {open?.kind === 'forward' && <Later load={loadForward} onFailed={close} of={{ messages: [open.message], onClose: close }} />}
        {(open?.kind === 'reacted' || open?.kind === 'read') && v && <Later load={loadWho} onFailed={close} of={{ kind: open.kind, message: open.message, conversation: v, onClose: close }} />}
      </div>
    </PutOff></ChatContext>
  )
}

function ignore(): void {}

/** Whether a message belongs to the open thread: as its root, or as an answer. */
function isOfThread(m: Message, root: number): boolean {
  return root > 0 && (m.seq === root || m.rel?.thread === root)
}

/**
 * Whether pasted or dropped data is a picture or file without a text. Copied cells of a table come with a picture
 * of themselves: their text is taken.
 */
function isOnlyFiles({ types }: DataTransfer): boolean {
  return types.includes('Files') && !types.includes('text/plain')
}

/** A direct conversation without a message yet. */
function Beginning({ peer, pending }: { readonly peer: string; readonly pending: ReturnType<typeof usePendingOf> }): ReactElement {
  const { t } = useTranslation()
  const { user } = useSession()
  const { synced } = useStatus() // an unsynced list does not show whether somebody has written
  const rows = arrange([], pending, '').flatMap((d) => d.rows)
  return (
    <div className="timeline">
      <div className="timeline-view">
        <div className="timeline-content">
          {synced && peer !== '' && rows.length === 0 && <div className="service beginning"><span>{t(peer === user ? 'notesBeginning' : 'beginning', { name: peer })}</span></div>}
          <ol>{rows.map((row) => row.kind === 'pending' && <li key={row.key}><PendingBubble outgoing={row.outgoing} conv="" first={row.first} last={row.last} />{row.outgoing === newestWaiting(pending) && <WaitLine />}</li>)}</ol>
        </div>
      </div>
    </div>
  )
}
