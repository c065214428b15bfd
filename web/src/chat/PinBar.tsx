import type { PinnedMessage } from '@petrel-im/sdk'
import { useClient, useMessages, useStatus } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useMemo, useState } from 'react'
import { Icon } from '../../ui/index.js'
import { useTranslation } from '../i18n/index.js'
import { useAway } from './hiddenMessages.js'
import { isAway } from './inTimeline.js'
import { usePlain } from './plainText.js'

/**
 * Returns the pinned messages of a conversation, without those that the person has hidden. While connected they are
 * read from the server, and again when the pins of the messages that the client holds change.
 */
export function usePins(conv: string): readonly PinnedMessage[] {
  const client = useClient()
  const { state } = useStatus()
  const held = useMessages(conv).filter((m) => m.pinned).map((m) => m.seq).join()
  const away = useAway(conv)
  const [pins, setPins] = useState<readonly PinnedMessage[]>([])
  useEffect(() => {
    if (state !== 'live') return undefined
    const over = new AbortController()
    client.pins(conv, { signal: over.signal }).then(setPins, () => {}) // without an answer the former pins stay
    return () => over.abort()
  }, [client, conv, held, state])
  return useMemo(() => pins.filter((pin) => !isAway(pin.message.seq, away)), [away, pins])
}

/**
 * A bar with a pinned message, at first the newest, at the top of the timeline. A click goes to the message, and
 * shows the next older one in the bar.
 */
export function PinBar({ pins, onJump }: { readonly pins: readonly PinnedMessage[]; readonly onJump: (seq: number) => void }): ReactElement | null {
  const { t } = useTranslation()
  const [at, setAt] = useState(0)
  const pin = pins[at % pins.length]
  const text = usePlain(pin?.message.text, pin?.message.rel)
  if (!pin) return null
  const open = (): void => {
    onJump(pin.message.seq)
    setAt((at + 1) % pins.length)
  }
  return (
    <button type="button" className="pin-bar" onClick={open}>
      <Icon name="pin" />
      <span className="pin-bar-text">
        <span className="pin-bar-name">{pins.length > 1 ? t('pinnedNth', { n: pins.length - at % pins.length, of: pins.length }) : t('pinnedMessage')}</span>
        <span className="cut" dir="auto">{text || t('otherKind')}</span>
      </span>
    </button>
  )
}
