import type { CSSProperties, ReactElement } from 'react'
import { emojiPattern } from './emoji.js'
import { Icon, type IconName } from './Icon.js'

interface AvatarProps {
  readonly id: string
  readonly name: string
  readonly size?: number // px
  readonly online?: boolean
  readonly icon?: IconName | undefined // shown in place of the initials
  readonly group?: boolean
}

/**
 * The picture of a user (a circle) or of a group (a square with round corners): the initials of the name on a
 * colour that follows from the id.
 */
export function Avatar({ id, name, size = 54, online = false, icon, group = false }: AvatarProps): ReactElement {
  return (
    <span className={`avatar${online ? ' avatar-online' : ''}${group ? ' avatar-group' : ''}`} style={{ '--size': `${size}px`, '--hue': hueOf(id) } as CSSProperties} aria-hidden="true">
      {icon ? <Icon name={icon} /> : initials(name)}
    </span>
  )
}

const hues = [12, 45, 72, 145, 185, 230, 262, 298, 340] // without muddy colours, and far enough apart to tell two of them from each other

/** Returns the hue of an id, in degrees: the same one everywhere. */
export function hueOf(id: string): number {
  let hash = 0x811ca1ed // chosen so that the users of `petrel demo` have different colours
  for (const c of id) hash = Math.imul(hash ^ (c.codePointAt(0) ?? 0), 0x01000193)
  hash = Math.imul(hash ^ hash >>> 15, 0x2c1b3c6d) // so that similar ids get different colours
  hash = Math.imul(hash ^ hash >>> 12, 0x297a2d39)
  return hues[(hash >>> 8) % hues.length] ?? 0
}

const letter = /^[\p{L}\p{N}](?!\p{M})/u // without combining marks
const emoji = new RegExp(`^${emojiPattern}`, 'u')
let signs: Intl.Segmenter | undefined // made on demand, because an opening page would wait for it

/**
 * Returns the initials of a name, as capitals: the first character of its first word, as a reader sees it. If that is
 * a letter that has a capital form, the first such letter that begins a later word follows. '' gives '?'.
 */
export function initials(name: string): string {
  const words = name.trim().split(/\s+/)
  const first = signOf(words[0] ?? '')
  const second = isCased(first) ? words.slice(1).map((word) => letter.exec(word)?.[0] ?? '').find(isCased) ?? '' : ''
  return (first + second).toLocaleUpperCase()
}

function signOf(word: string): string {
  return letter.exec(word)?.[0] ?? emoji.exec(word)?.[0] ?? (signs ??= new Intl.Segmenter()).segment(word)[Symbol.iterator]().next().value?.segment ?? '?'
}

function isCased(sign: string): boolean {
  return sign.toLowerCase() !== sign.toUpperCase()
}
