import type { SendState } from '@petrel-im/sdk'
import type { ReactElement } from 'react'
import { Icon } from '../../ui/index.js'
import { type Key, useTranslation } from '../i18n/index.js'

export type Fate = Exclude<SendState, 'sent'> | 'stored' | 'delivered' | 'read'

const names: Readonly<Record<Fate, Key>> = {
  sending: 'fateSending', rejected: 'fateRejected', unknowable: 'fateUnknowable', stored: 'fateStored', delivered: 'fateDelivered', read: 'fateRead',
}

/**
 * The known outcome of an own message: an icon with a label. Stored, delivered and read are shown only after the
 * server has said so. A rejected message and one whose outcome cannot be known any more have the same icon; their
 * labels differ.
 */
export function Ticks({ fate }: { readonly fate: Fate }): ReactElement {
  const { t } = useTranslation()
  const label = t(names[fate])
  if (fate === 'sending') return <span className="ticks" role="img" aria-label={label} title={label}><Icon name="clock" small /></span>
  if (fate === 'rejected' || fate === 'unknowable') return <span className="ticks ticks-failed" role="img" aria-label={label} title={label}><Icon name="alert" small /></span>
  return (
    <span className={`ticks ticks-${fate}`} role="img" aria-label={label} title={label}>
      <svg viewBox="0 0 22 14" aria-hidden="true">
        <path d={fate === 'stored' ? 'M5 7.500l4 4 8-9' : 'M1.500 7.500l4 4 8-9M9.500 10l1.500 1.500 8-9'} />
      </svg>
    </span>
  )
}

/** Returns the outcome to show for a stored own message. */
export function fateOf(m: { readonly delivered: number; readonly read: number }): Fate {
  return m.read > 0 ? 'read' : m.delivered > 0 ? 'delivered' : 'stored'
}
