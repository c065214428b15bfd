import { type KeyboardEvent, memo, type ReactElement, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { type IconName, isComposing, SearchField, Spinner } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { type AnyKey, useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { loadEmoji } from './loadEmoji.js'
import { GroupBar } from './GroupBar.js'
import { keepEmoji, keepTone, recentEmojis, toneOf } from './recent.js'
import type { Emoji, EmojiData } from './search.js'
import { type Tone, toned } from './tone.js'
import { ToneChoice } from './ToneChoice.js'
import './emoji.css'

const recent = -1 // used as the number of the group of recent emojis

const groupLooks: Readonly<Record<number, readonly [AnyKey, IconName]>> = {
  [recent]: ['emojiRecent', 'clock'], 0: ['emojiSmileys', 'smile'], 1: ['emojiPeople', 'person'], 3: ['emojiNature', 'leaf'], 4: ['emojiFood', 'cup'], 5: ['emojiTravel', 'car'], 6: ['emojiActivities', 'ball'], 7: ['emojiObjects', 'bulb'], 8: ['emojiSymbols', 'heart'], 9: ['emojiFlags', 'flag'],
}

export interface EmojiPickerProps {
  readonly onPick: (sign: string) => void
  readonly onClose: () => void // called by a press outside
  readonly onFailed: () => void // called if the emojis cannot be loaded
}

/**
 * The choice of an emoji. It stays open after a choice, so that several can be chosen, until the person writes,
 * sends or goes elsewhere.
 */
export default function EmojiPicker({ onPick, onClose, onFailed }: EmojiPickerProps): ReactElement {
  const { t } = useLaterTranslation()
  const { account } = useSession()
  const data = useEmojis(onFailed)
  const [wanted, setWanted] = useState('')
  const [tone, setTone] = useState<Tone>(() => toneOf(account))
  const [used] = useState(() => recentEmojis(account)) // an emoji that is chosen now is listed when the picker opens again
  const box = useRef<HTMLDivElement>(null)
  usePressOutside(box, onClose)
  const groups = useMemo(() => !data ? [] : [...used.length > 0 ? [{ group: recent, emojis: used.map((sign): Emoji => ({ sign, label: data.labelOf(sign), toned: false })) }] : [], ...data.groups], [data, used])
  const picking = useRef(onPick)
  picking.current = onPick
  const pick = useCallback((sign: string): void => {
    keepEmoji(account, sign)
    picking.current(sign)
  }, [account])
  const pressed = (e: KeyboardEvent): void => {
    if (isComposing(e) || !(e.target instanceof HTMLElement)) return
    const all = [...box.current?.querySelectorAll<HTMLElement>('.emoji') ?? []]
    if (e.target instanceof HTMLInputElement) {
      const best = e.key === 'Enter' && wanted !== '' ? data?.search(wanted)[0] : undefined
      if (best) pick(best.toned ? toned(best.sign, tone) : best.sign)
      else if (e.key === 'ArrowDown') all[0]?.focus()
      else return
      e.preventDefault()
    }
    if (!e.target.classList.contains('emoji')) return
    const columns = getComputedStyle(e.target.parentElement ?? e.target).gridTemplateColumns.split(' ').length
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[e.key]
    if (step === undefined) return
    e.preventDefault()
    all[Math.max(0, Math.min(all.length - 1, all.indexOf(e.target) + step))]?.focus()
  }
  return (
    <div className="emoji-picker" ref={box} role="dialog" aria-label={t('emoji')} onKeyDown={pressed}>
      <div className="emoji-head">
        <SearchField label={t('searchEmoji')} clearLabel={t('clear')} value={wanted} onValue={setWanted} autoFocus={matchMedia('(pointer: fine)').matches} />
        <ToneChoice tone={tone} onChoose={(to) => { setTone(to); keepTone(account, to) }} />
      </div>
      {data && wanted === '' && <GroupBar groups={groups.map(({ group }) => ({ group, label: t(nameOf(group)), icon: groupLooks[group]?.[1] ?? 'smile' }))} box={box} />}
      <div className="emoji-groups">
        {!data && <Spinner label={t('loading')} />}
        {data && wanted !== '' && <Signs of={data.search(wanted)} tone={tone} onPick={pick} none={t('nothingFound')} />}
        {wanted === '' && groups.map(({ group, emojis }) => (
          <section key={group} data-group={group} aria-label={t(nameOf(group))} style={{ containIntrinsicSize: `auto ${2 + 2.5 * Math.ceil(emojis.length / 8)}rem` }}>
            <h3>{t(nameOf(group))}</h3>
            <Signs of={emojis} tone={tone} onPick={pick} />
          </section>
        ))}
      </div>
    </div>
  )
}

function nameOf(group: number): AnyKey {
  return groupLooks[group]?.[0] ?? 'emoji'
}

/** Returns the emojis in the language of the page, once they are loaded. */
function useEmojis(onFailed: () => void): EmojiData | undefined {
  const { language } = useLaterTranslation()
  const [data, setData] = useState<EmojiData | undefined>(undefined)
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
  return data
}

function usePressOutside(box: { readonly current: HTMLElement | null }, onClose: () => void): void {
  useEffect(() => {
    const outside = (e: PointerEvent): void => {
      const place = box.current?.parentElement
      if (place && !e.composedPath().includes(place)) onClose() // e.target may be the element around a shadow tree, so the whole path is searched
    }
    document.addEventListener('pointerdown', outside)
    return () => document.removeEventListener('pointerdown', outside)
  }, [box, onClose])
}

const Signs = memo(function Signs({ of, tone, onPick, none }: { readonly of: readonly Emoji[]; readonly tone: Tone; readonly onPick: (sign: string) => void; readonly none?: string }): ReactElement {
  if (of.length === 0) return <p className="quiet emoji-none">{none}</p>
  return (
    <div className="emoji-grid">
      {of.map((e) => {
        const sign = e.toned ? toned(e.sign, tone) : e.sign
        return <button type="button" className="emoji" key={e.sign} title={e.label} aria-label={e.label} onClick={() => onPick(sign)}>{sign}</button>
      })}
    </div>
  )
})
