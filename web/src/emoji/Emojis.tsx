import { type ComponentType, type ReactElement, useCallback, useEffect, useState } from 'react'
import { useToast } from '../../ui/index.js'
import { useTranslation } from '../i18n/index.js'
import type { EmojiPickerProps } from './EmojiPicker.js'

/** The choice of an emoji, loaded when it is shown for the first time. */
export function Emojis({ onPick, onClose }: Pick<EmojiPickerProps, 'onPick' | 'onClose'>): ReactElement | null {
  const { t } = useTranslation()
  const toast = useToast()
  const [Picker, setPicker] = useState<ComponentType<EmojiPickerProps>>()
  // If the server has a newer version by now, the script of the picker may be gone.
  const failed = useCallback(() => {
    onClose()
    toast(t(navigator.onLine ? 'newVersion' : 'errorOffline'))
  }, [onClose, t, toast])
  useEffect(() => {
    if (!Picker) import('../parts.js').then((m) => setPicker(() => m.EmojiPicker), failed)
  }, [Picker, failed])
  return Picker ? <Picker onPick={onPick} onClose={onClose} onFailed={failed} /> : null
}
