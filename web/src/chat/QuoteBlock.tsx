import type { Quoted } from '@petrel-im/sdk'
import { useClient, useQuote } from '@petrel-im/sdk/react'
import type { CSSProperties, ReactElement } from 'react'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useTranslation } from '../i18n/index.js'
import { hueOf } from '../../ui/index.js'
import { useIsAway } from './hiddenMessages.js'
import { usePlain } from './plainText.js'

/** The quote of the message that a message answers. */
export function QuoteBlock({ conv, seq, onOpen }: { readonly conv: string; readonly seq: number; readonly onOpen: (seq: number) => void }): ReactElement {
  const quoted = useQuote(conv, seq)
  const quote = useIsAway(conv, seq) ? 'none' : quoted
  const from = typeof quote === 'string' ? '' : quote.from
  const { t } = useTranslation()
  const { user } = useSession()
  const name = useName(from)
  return (
    <button type="button" tabIndex={-1} className="quote" style={{ '--hue': hueOf(from) } as CSSProperties} onClick={() => onOpen(seq)}>
      <span className="quote-name cut" dir="auto">{from !== '' && from === user ? t('you') : name || '…'}</span>
      <span className="quote-text cut" dir="auto"><QuoteText quote={quote} conv={conv} /></span>
    </button>
  )
}

function QuoteText({ quote, conv }: { readonly quote: Quoted; readonly conv: string }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { seq = 0, text = undefined } = typeof quote === 'string' ? {} : quote
  const [entry] = seq > 0 ? client.messages(conv, seq - 1, 1) : [] // the quote itself does not list its mentions
  const plain = usePlain(text, entry?.seq === seq ? entry.rel : undefined)
  if (quote === 'asked') return <>…</>
  if (quote === 'none') return <em>{t('quoteGone')}</em>
  if (quote.recalledBy > 0) return <em>{t('recalled')}</em>
  return <>{quote.text === undefined ? <em>{t('otherKind')}</em> : plain}</>
}
