import { type KeyboardEvent, type ReactElement, useEffect, useState } from 'react'
import { Icon, type IconName } from '../../ui/index.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'

interface GroupBarProps {
  readonly groups: readonly { readonly group: number; readonly label: string; readonly icon: IconName }[]
  readonly box: { readonly current: HTMLElement | null } // the element with the emojis
}

const slackPx = 8

/**
 * A bar that leads to the groups of emojis, and shows which group is in view. It is one stop of Tab; arrows go from
 * group to group.
 */
export function GroupBar({ groups, box }: GroupBarProps): ReactElement {
  const { t } = useLaterTranslation()
  const [at, setAt] = useState(groups[0]?.group ?? 0)
  useEffect(() => {
    const list = box.current?.querySelector<HTMLElement>('.emoji-groups')
    const look = (): void => {
      const sections = [...list?.querySelectorAll<HTMLElement>('[data-group]') ?? []]
      const seen = sections.findLast((s) => s.offsetTop <= (list?.scrollTop ?? 0) + slackPx)
      setAt(Number((seen ?? sections[0])?.dataset['group']))
    }
    list?.addEventListener('scroll', look, { passive: true })
    return () => list?.removeEventListener('scroll', look)
  }, [box])
  const open = (group: number): void => {
    setAt(group)
    const list = box.current?.querySelector<HTMLElement>('.emoji-groups')
    list?.scrollTo({ top: list.querySelector<HTMLElement>(`[data-group="${group}"]`)?.offsetTop ?? 0 })
  }
  const pressed = (e: KeyboardEvent<HTMLElement>): void => {
    const from = groups.findIndex(({ group }) => group === at)
    const to = { ArrowRight: from + 1, ArrowLeft: from - 1 + groups.length, Home: 0, End: groups.length - 1 }[e.key]
    const next = to === undefined ? undefined : groups[to % groups.length]
    if (!next) return
    e.preventDefault()
    open(next.group)
    e.currentTarget.querySelector<HTMLElement>(`[data-tab="${next.group}"]`)?.focus()
  }
  return (
    <div className="emoji-bar" role="toolbar" aria-label={t('emojiGroups')} onKeyDown={pressed}>
      {groups.map(({ group, label, icon }) => (
        <button type="button" key={group} data-tab={group} className="emoji-tab" aria-label={label} title={label} aria-current={group === at} tabIndex={group === at ? 0 : -1} onClick={() => open(group)}><Icon name={icon} /></button>
      ))}
    </div>
  )
}
