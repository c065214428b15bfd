import type { MemberRef } from '@petrel-im/sdk'
import { type KeyboardEvent, type ReactElement, useCallback, useRef, useState } from 'react'
import { activeIn, Avatar } from '../../ui/index.js'
import { hasWords, nameOf, ownNameOf, useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { loadEmoji } from '../emoji/loadEmoji.js'
import { useTranslation } from '../i18n/index.js'

const most = 8 // the most offered lines

/** A proposed replacement of the typed word. */
interface Offer {
  readonly key: string
  readonly text: string // with the blank after it
  readonly user?: string
  readonly emoji?: string
  readonly label: string
}

export interface Offered {
  readonly offers: readonly Offer[]
  readonly at: number // index of the offer that Enter takes
  readonly from: number // where in the text the offer goes
}

export interface Completed {
  readonly text: string
  readonly from: number
}

/**
 * @ or : and the part of a name after it. In Chinese and Japanese no blank stands before the sign. After a letter
 * or digit, as in addresses, times and links, it begins no name.
 */
const word = /(?<![A-Za-z0-9_@.:：/])([@:：])([\p{L}\p{N}._+-]*)$/u

/** A complete name between two colons. In code it stays as it is. */
const whole = /(?<![A-Za-z0-9_@.:：/`])[:：]([\p{L}\p{N}_+-]+)[:：]$/u

/** Whether enough of an emoji's name is written: two letters, or one Chinese sign. */
function isEnough(part: string): boolean {
  return part.length >= 2 || /\p{Script=Han}/u.test(part)
}

/** Offers members after @, and emojis after : and a part of their name. */
export function useCompletion(members: readonly MemberRef[], me: string, mayAll: boolean) {
  const [state, setState] = useState<Offered | undefined>(undefined)
  const session = useSession()
  const { t, language } = useTranslation()
  const asked = useRef(0)
  const close = useCallback(() => {
    asked.current++
    setState(undefined)
  }, [])

  const look = (f: HTMLTextAreaElement): void => {
    const found = f.selectionStart === f.selectionEnd ? word.exec(f.value.slice(0, f.selectionStart)) : null
    if (!found) return close()
    const [, sign, written = ''] = found
    const from = f.selectionStart - written.length - 1
    const turn = ++asked.current
    const offer = (offers: readonly Offer[]): void => {
      if (turn === asked.current) setState(offers.length > 0 ? { offers: offers.slice(0, most), at: 0, from } : undefined)
    }
    const part = written.toLowerCase()
    if (sign === '@') {
      const some = members.filter(({ user }) => user !== me && (user.toLowerCase().startsWith(part) || hasWords([nameOf(session, user), ownNameOf(session.profiles, user)], part)))
      offer([
        ...some.map(({ user }): Offer => ({ key: user, text: `@${user} `, user, label: user })),
        ...(mayAll && members.length > 0 && 'all'.startsWith(part) ? [{ key: '*', text: '@all ', label: t('mentionAll') }] : []),
      ])
    } else if (isEnough(part)) {
      loadEmoji(language).then(({ search }) => offer(search(part).map((e) => ({ key: e.sign, text: `${e.sign} `, emoji: e.sign, label: e.label }))), () => offer([])) // the word can be written without
    } else close()
  }

  /** Replaces the name of an emoji by the emoji when the second colon is typed. The person can undo it. */
  const typed = (f: HTMLTextAreaElement, { isComposing, inputType, data }: InputEvent): void => {
    if (isComposing || inputType !== 'insertText' || !/[:：]$/.test(data ?? '')) return
    const { value, selectionEnd: end } = f
    const found = whole.exec(value.slice(0, end))
    if (!found) return
    loadEmoji(language).then(({ named }) => {
      const emoji = named(found[1] ?? '')
      if (!emoji || f.value !== value || f.selectionStart !== end || f.selectionEnd !== end || activeIn(f) !== f) return
      f.setSelectionRange(found.index, end)
      document.execCommand('insertText', false, emoji.sign)
    }, () => {}) // the name can stay
  }

  /** Whether the list has handled the key. */
  const onKeyDown = (e: KeyboardEvent, complete: (c: Completed) => void): boolean => {
    if (!state) return false
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key]
    if (step !== undefined) setState({ ...state, at: (state.at + step + state.offers.length) % state.offers.length })
    else if (e.key === 'Enter' || e.key === 'Tab') complete({ text: state.offers[state.at]?.text ?? '', from: state.from })
    else if (e.key === 'Escape') close()
    else return false
    e.preventDefault()
    e.stopPropagation()
    return true
  }
  return { state, look, typed, close, onKeyDown, mayAll }
}

export function Completion({ state, onChoose }: { readonly state: Offered | undefined; readonly onChoose: (c: Completed) => void }): ReactElement | null {
  const { t } = useTranslation()
  if (!state) return null
  return (
    <ul className="completion" id="completion" role="listbox" aria-label={t('suggestions')}>
      {state.offers.map((o, i) => (
        <li key={o.key} id={`completion-${i}`} role="option" aria-selected={i === state.at} ref={i === state.at ? (line) => line?.scrollIntoView({ block: 'nearest' }) : null} className="completion-line" onMouseDown={(e) => e.preventDefault()} onClick={() => onChoose({ text: o.text, from: state.from })}>
          {o.user !== undefined ? <UserLine user={o.user} /> : <><span className="completion-sign">{o.emoji ?? '@'}</span><span className="cut">{o.label}</span></>}
        </li>
      ))}
    </ul>
  )
}

function UserLine({ user }: { readonly user: string }): ReactElement {
  const name = useName(user)
  return <><Avatar id={user} name={name} size={28} /><span className="cut" dir="auto">{name}</span>{name !== user && <span className="quiet cut">@{user}</span>}</>
}
