import type { Conversation } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useState } from 'react'
import { Icon, MenuItem, type MenuPlace, useToast } from '../../ui/index.js'
import { dayOf, fullDate, timeOf } from '../i18n/dates.js'
import { type Translation, useTranslation } from '../i18n/index.js'
import { Later } from '../Later.js'
import { isMuted } from '../sidebar/chatList.js'
import { thrownText } from './failureText.js'

export const muteForEver = Date.UTC(2100, 0) // "until the person ends it", in Unix ms
const longestTimerMs = 2 ** 31 - 1 // browsers fire a longer timer at once

const load = () => import('../parts.js').then((m) => m.MuteMenu)

/** Asks for how long a conversation is muted. */
export function MuteTimes(of: { readonly conv: string; readonly at: MenuPlace; readonly onClose: () => void }): ReactElement {
  return <Later load={load} onFailed={of.onClose} of={of} />
}

/** A menu item that mutes a conversation, after the duration was chosen, or ends its mute at once. */
export function MuteItem({ conversation: v, onMute }: { readonly conversation: Conversation; readonly onMute: () => void }): ReactElement {
  const translation = useTranslation()
  const { t } = translation
  const client = useClient()
  const toast = useToast()
  if (!useMuted(v)) return <MenuItem icon="mute" onSelect={onMute}>{t('mute')}</MenuItem>
  return (
    <MenuItem icon="bell" onSelect={() => void client.mute(v.id, 0).catch((why: unknown) => toast(thrownText(why, t)))}>
      <span>{t('unmute')}<small className="menu-note">{mutedText(v, translation)}</small></span>
    </MenuItem>
  )
}

/** Whether a conversation is muted now. The component is drawn again when the mute ends. */
export function useMuted(v: Conversation): boolean {
  useAfter(v.personal.mutedUntilMs)
  return isMuted(v)
}

/** The mark of a muted conversation beside its name, with the end of the mute. */
export function MuteMark({ conversation: v }: { readonly conversation: Conversation }): ReactElement | null {
  const text = mutedText(v, useTranslation())
  return useMuted(v) ? <span role="img" aria-label={text} title={text}><Icon name="mute" small /></span> : null
}

/** Draws the component again at a time (Unix ms), unless that is past, or later than the longest timer. */
export function useAfter(ms: number): void {
  const [, draw] = useState(0)
  useEffect(() => {
    const left = ms - Date.now()
    if (left <= 0 || left > longestTimerMs) return undefined
    const timer = setTimeout(() => draw((n) => n + 1), left)
    return () => clearTimeout(timer)
  }, [ms])
}

/** Returns the text for a muted conversation, with the end of the mute if it has one. */
export function mutedText(v: Conversation, translation: Translation): string {
  const { mutedUntilMs: ms } = v.personal
  if (ms <= Date.now() || ms >= muteForEver) return translation.t('muted')
  return translation.t('mutedUntil', { when: dayOf(ms) === dayOf(Date.now()) ? timeOf(ms, translation) : fullDate(ms, translation) })
}

/** Returns when the first of the conversations' mutes ends, in Unix ms; 0: none ends. */
export function nextUnmuted(all: readonly Conversation[], now = Date.now()): number {
  const until = all.map((v) => v.personal.mutedUntilMs).filter((ms) => ms > now && ms < muteForEver)
  return until.length > 0 ? Math.min(...until) : 0
}
