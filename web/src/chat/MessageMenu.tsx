import type { Conversation, Message, Outgoing } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import type { ReactElement } from 'react'
import { Icon, Menu, MenuItem, type MenuPlace, useToast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useTranslation } from '../i18n/index.js'
import { useChatActions } from './actions.js'
import { copy } from './copyText.js'
import { soon, thrownText } from './failureText.js'
import { lift } from './liftAboveMenu.js'
import { quickReactions } from './Reactions.js'

interface MenuProps {
  readonly message: Message
  readonly at: MenuPlace
  readonly conversation: Conversation
  readonly inThread: boolean // the thread of the message is open
  readonly onClose: () => void
  readonly onReact: (m: Message) => void
  readonly onRead: (m: Message) => void
  readonly onHide: (m: Message) => void
  readonly onRecall: (m: Message) => void
  readonly onReport: (m: Message) => void
}

/** The menu of a stored message, with the actions that the person may take. */
export function MessageMenu({ message: m, at, conversation: v, inThread, onClose, onReact, onRead, onHide, onRecall, onReport }: MenuProps): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user } = useSession()
  const actions = useChatActions()
  const toast = useToast()
  const own = m.from === user
  const leads = v.role === 'owner' || v.role === 'admin'
  const said = (why: unknown): void => toast(thrownText(why, t))
  const hide = <MenuItem icon="eyeOff" danger onSelect={() => onHide(m)}>{t('hide')}</MenuItem>
  if (m.recalledBy > 0) return <Menu at={at} label={t('messageMenu')} onSheet={(top) => lift(at.of, top)} onClose={onClose}>{hide}</Menu>
  return (
    <Menu at={at} label={t('messageMenu')} onSheet={(top) => lift(at.of, top)} onClose={onClose}>
      {!v.left && (
        <div className="menu-reactions" role="group" aria-label={t('react')}>
          {quickReactions.map((emoji) => {
            const mine = m.reactions.some((r) => r.emoji === emoji && r.mine)
            return <button type="button" key={emoji} className="menu-reaction" role="menuitemcheckbox" aria-checked={mine} aria-label={t('reactWith', { emoji })} tabIndex={-1} onClick={() => actions.react(m, emoji, mine)}>{emoji}</button>
          })}
          <button type="button" className="menu-reaction" role="menuitem" aria-label={t('reactOther')} title={t('reactOther')} tabIndex={-1} onClick={() => onReact(m)}><Icon name="add" /></button>
        </div>
      )}
      {!v.left && <MenuItem icon="reply" onSelect={() => actions.reply(m)}>{t('reply')}</MenuItem>}
      {!v.left && !inThread && <MenuItem icon="thread" onSelect={() => actions.thread(m.rel?.thread || m.seq)}>{t('thread')}</MenuItem>}
      {own && !v.left && m.text !== undefined && !m.rel?.forwarded && <MenuItem icon="write" onSelect={() => actions.edit(m)}>{t('edit')}</MenuItem>}
      {m.text !== undefined && <CopyItem text={m.text} />}
      <MenuItem icon="forward" onSelect={() => actions.forward(m)}>{t('forward')}</MenuItem>
      {!v.left && (v.kind === 'direct' || leads) && <MenuItem icon="pin" onSelect={() => void client.pin(v.id, m.seq, m.pinned, soon(client)).catch(said)}>{t(m.pinned ? 'unpin' : 'pin')}</MenuItem>}
      {own && v.kind === 'group' && <MenuItem icon="eye" onSelect={() => onRead(m)}>{t('whoRead')}</MenuItem>}
      {m.reactions.length > 0 && <MenuItem icon="smile" onSelect={() => actions.whoReacted(m)}>{t('whoReacted')}</MenuItem>}
      {!inThread && <MenuItem icon="select" onSelect={() => actions.select(m)}>{t('select')}</MenuItem>}
      {hide}
      {!own && m.from !== '' && <MenuItem icon="flag" danger onSelect={() => onReport(m)}>{t('report')}</MenuItem>}
      {!v.left && (own || leads) && <MenuItem icon="trash" danger onSelect={() => onRecall(m)}>{t('recall')}</MenuItem>}
    </Menu>
  )
}

/**
 * The menu of a pending message. It has no recall: the message may be on the server already, or be sent at any
 * moment, and nobody can take it back before it is stored. One that waits because of a rate limit can be discarded.
 */
export function WaitingMenu({ outgoing: { draft, error, state, id }, at, onClose }: { readonly outgoing: Outgoing; readonly at: MenuPlace; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  return (
    <Menu at={at} label={t('messageMenu')} onSheet={(top) => lift(at.of, top)} onClose={onClose}>
      <CopyItem text={draft.text ?? draft.edit?.text ?? ''} />
      {state === 'sending' && error?.code === 'rate_limited' && <MenuItem icon="trash" danger onSelect={() => client.discard(id)}>{t('discard')}</MenuItem>}
    </Menu>
  )
}

function CopyItem({ text }: { readonly text: string }): ReactElement {
  const { t } = useTranslation()
  const toast = useToast()
  return <MenuItem icon="copy" onSelect={() => void copy(text).then(() => toast(t('copied')), (why: unknown) => toast(thrownText(why, t)))}>{t('copy')}</MenuItem>
}
