import type { Message } from '@petrel-im/sdk'
import type { ReactElement, ReactNode } from 'react'
import { useTranslation } from '../i18n/index.js'
import { useChatActions } from './actions.js'

export const quickReactions = ['👍', '❤️', '😂', '😮', '😢', '🎉'] as const

/**
 * The reactions below a message, and the children after them. Each reaction is a button that adds or removes the
 * person's own one.
 */
export function Reactions({ message: m, children }: { readonly message: Message; readonly children: ReactNode }): ReactElement {
  const { t } = useTranslation()
  const { react, whoReacted } = useChatActions()
  return (
    <div className="reactions">
      {m.reactions.map(({ emoji, count, mine }) => (
        <button
          type="button" key={emoji} className="reaction" aria-pressed={mine} aria-label={t('reactionLabel', { emoji, n: count })} tabIndex={-1}
          onClick={() => react(m, emoji, mine)} onContextMenu={(e) => { e.preventDefault(); e.stopPropagation(); whoReacted(m) }}
        >
          <span>{emoji}</span><span className="reaction-count">{count}</span>
        </button>
      ))}
      {children}
    </div>
  )
}
