import { memo, type ReactElement, useMemo, useState } from 'react'
import { useTranslation } from '../i18n/index.js'
import { foldOf, piecesUntil } from './foldText.js'
import { type Piece, piecesOf } from './markup.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useChatActions } from './actions.js'

/**
 * The text of a message with its marks. A long one is cut until the person asks for more. The arrow keys lead to
 * the links and buttons in it, see rovingFocus.ts; only code is a stop of Tab, because it may have to be scrolled.
 * `of` is the key of the message.
 */
export const Body = memo(function Body({ text, mentions, of }: { readonly text: string; readonly mentions: ReadonlySet<string>; readonly of: string }): ReactElement {
  const { t } = useTranslation()
  const { grow, unfolded } = useChatActions()
  const fold = useMemo(() => foldOf(text), [text])
  const [whole, setWhole] = useState(() => unfolded.has(of))
  const pieces = useMemo(() => fold === undefined || whole ? piecesOf(text, mentions) : piecesUntil(text, fold, mentions), [text, mentions, fold, whole])
  const turn = (): void => {
    if (whole) unfolded.delete(of)
    else {
      unfolded.add(of)
      grow()
    }
    setWhole(!whole)
  }
  return (
    <span className="body">
      {pieces.map(draw)}
      {fold !== undefined && <button type="button" tabIndex={-1} className="body-fold" aria-expanded={whole} onClick={turn}>{t(whole ? 'showLess' : 'showAll')}</button>}
    </span>
  )
})

function draw(piece: Piece, i: number): ReactElement | string {
  if (typeof piece === 'string') return piece
  switch (piece.kind) {
    case 'bold':
      return <strong key={i}>{piece.of.map(draw)}</strong>
    case 'italic':
      return <em key={i}>{piece.of.map(draw)}</em>
    case 'strike':
      return <s key={i}>{piece.of.map(draw)}</s>
    case 'code':
      return <code key={i}>{piece.text}</code>
    case 'block':
      return <pre key={i} tabIndex={0}><code>{piece.text}</code></pre>
    case 'link':
      return <a key={i} tabIndex={-1} href={piece.to} target="_blank" rel="noopener noreferrer nofollow">{piece.text}</a>
    case 'mention':
      return <Mention key={i} user={piece.user} />
  }
}

function Mention({ user }: { readonly user: string }): ReactElement {
  const { openUser } = useChatActions()
  const { user: me } = useSession()
  const name = useName(user === 'all' ? '' : user)
  if (user === 'all') return <span className="mention mention-me">@all</span>
  return <button type="button" tabIndex={-1} className={user === me ? 'mention mention-me' : 'mention'} title={name === user ? undefined : `@${user}`} onClick={() => openUser(user)}>@<bdi>{name}</bdi></button>
}
