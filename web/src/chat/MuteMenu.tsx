import { useClient } from '@petrel-im/sdk/react'
import type { ReactElement } from 'react'
import { Menu, MenuItem, type MenuPlace, useToast } from '../../ui/index.js'
import { type AnyKey, useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { thrownText } from './failureText.js'
import { muteForEver } from './mute.js'

const hourMs = 3_600_000

const times: readonly (readonly [AnyKey, number])[] = [['muteHour', hourMs], ['muteHours', 8 * hourMs], ['muteWeek', 7 * 24 * hourMs], ['muteAlways', Infinity]]

/** The times for which a conversation can be muted. */
export function MuteMenu({ conv, at, onClose }: { readonly conv: string; readonly at: MenuPlace; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const toast = useToast()
  const mute = (ms: number): void => void client.mute(conv, ms === Infinity ? muteForEver : Date.now() + ms).catch((why: unknown) => toast(thrownText(why, t)))
  return (
    <Menu at={at} label={t('muteFor')} onClose={onClose}>
      <div className="menu-title" aria-hidden="true">{t('muteFor')}</div>
      {times.map(([key, ms]) => <MenuItem key={key} icon={ms === Infinity ? 'mute' : 'clock'} onSelect={() => mute(ms)}>{t(key)}</MenuItem>)}
    </Menu>
  )
}
