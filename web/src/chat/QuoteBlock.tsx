import type { Quoted } from '@petrel-im/sdk'
import { useQuote } from '@petrel-im/sdk/react'
import type { CSSProperties, ReactElement } from 'react'
import { useName } from '../account/names.js'
import { useTranslation } from '../i18n/index.js'
import { hueOf } from '../../ui/index.js'
import { plainText } from './marks.js'

/** What a message answers. */
export function QuoteBlock({ conv, seq, onOpen }: { readonly conv: string; readonly seq: number; readonly onOpen: (seq: number) => void }): ReactElement {
  const quote = useQuote(conv, seq)
  const from = typeof quote === 'string' ? '' : quote.from
  const name = useName(from)
  return (
    <button type="button" tabIndex={-1} className="quote" style={{ '--hue': hueOf(from) } as CSSProperties} onClick={() => onOpen(seq)}>
      <span className="quote-name cut" dir="auto">{name || '…'}</span>
      <span className="quote-text cut" dir="auto"><QuoteText quote={quote} /></span>
    </button>
  )
}

export function QuoteText({ quote }: { readonly quote: Quoted }): ReactElement {
  const { t } = useTranslation()
  if (quote === 'asked') return <>…</>
  if (quote === 'none') return <em>{t('quoteGone')}</em>
  if (quote.recalledBy > 0) return <em>{t('recalled')}</em>
  return <>{quote.text === undefined ? <em>{t('otherKind')}</em> : plainText(quote.text)}</>
}
