import { type KeyboardEvent, memo, type ReactElement, useEffect, useRef, useState } from 'react'
import { isComposing, SearchField, Spinner } from '../../ui/index.js'
import { type Key, useTranslation } from '../i18n/index.js'
import { loadEmoji } from './data.js'
import type { Emoji, EmojiData } from './search.js'
import './emoji.css'

const groupNames: Readonly<Record<number, Key>> = {
  0: 'emojiSmileys', 1: 'emojiPeople', 3: 'emojiNature', 4: 'emojiFood', 5: 'emojiTravel', 6: 'emojiActivities', 7: 'emojiObjects', 8: 'emojiSymbols', 9: 'emojiFlags',
}

export interface EmojiPickerProps {
  readonly onPick: (sign: string) => void
  readonly onClose: () => void // by a press outside
  readonly onFailed: () => void // the emojis could not be loaded
}

/** Where an emoji is chosen. It stays open, so that several can be, until the person writes, sends or goes elsewhere. */
export default function EmojiPicker({ onPick, onClose, onFailed }: EmojiPickerProps): ReactElement {
  const { t, language } = useTranslation()
  const [data, setData] = useState<EmojiData | undefined>(undefined)
  const [wanted, setWanted] = useState('')
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let over = false
    loadEmoji(language).then((d) => {
      if (!over) setData(d)
    }, () => {
      if (!over) onFailed()
    })
    return () => {
      over = true
    }
  }, [language, onFailed])
  useEffect(() => {
    const outside = (e: PointerEvent): void => {
      const place = box.current?.parentElement
      if (place && !e.composedPath().includes(place)) onClose() // its target may be an element around a shadow tree
    }
    document.addEventListener('pointerdown', outside)
    return () => document.removeEventListener('pointerdown', outside)
  }, [onClose])
  const pressed = (e: KeyboardEvent): void => {
    if (isComposing(e)) return
    const best = e.key === 'Enter' && e.target instanceof HTMLInputElement && wanted !== '' ? data?.search(wanted)[0] : undefined
    if (best) {
      e.preventDefault()
      onPick(best.sign)
    }
    if (!(e.target instanceof HTMLElement) || !e.target.classList.contains('emoji')) return
    const all = [...box.current?.querySelectorAll<HTMLElement>('.emoji') ?? []]
    const columns = getComputedStyle(e.target.parentElement ?? e.target).gridTemplateColumns.split(' ').length
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[e.key]
    if (step === undefined) return
    e.preventDefault()
    all[Math.max(0, Math.min(all.length - 1, all.indexOf(e.target) + step))]?.focus()
  }
  return (
    <div className="emoji-picker" ref={box} role="dialog" aria-label={t('emoji')} onKeyDown={pressed}>
      <SearchField label={t('searchEmoji')} clearLabel={t('clear')} value={wanted} onValue={setWanted} autoFocus={matchMedia('(pointer: fine)').matches} />
      <div className="emoji-groups">
        {!data && <Spinner label={t('loading')} />}
        {data && wanted !== '' && <Signs of={data.search(wanted)} onPick={onPick} none={t('nothingFound')} />}
        {data && wanted === '' && data.groups.map(({ group, emojis }) => (
          <section key={group}>
            <h3>{t(groupNames[group] ?? 'emoji')}</h3>
            <Signs of={emojis} onPick={onPick} />
          </section>
        ))}
      </div>
    </div>
  )
}

const Signs = memo(function Signs({ of, onPick, none }: { readonly of: readonly Emoji[]; readonly onPick: (sign: string) => void; readonly none?: string }): ReactElement {
  if (of.length === 0) return <p className="quiet emoji-none">{none}</p>
  return <div className="emoji-grid">{of.map((e) => <button type="button" className="emoji" key={e.sign} title={e.label} aria-label={e.label} onClick={() => onPick(e.sign)}>{e.sign}</button>)}</div>
})
