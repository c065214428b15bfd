import type { CSSProperties, ReactElement } from 'react'
import { Icon, type IconName } from './Icon.js'

interface AvatarProps {
  readonly id: string
  readonly name: string
  readonly size?: number // px
  readonly online?: boolean
  readonly icon?: IconName | undefined // stands for the sign
}

/** The picture of a user or a group: the first sign of the name on a colour that follows from the id. */
export function Avatar({ id, name, size = 54, online = false, icon }: AvatarProps): ReactElement {
  return (
    <span className={online ? 'avatar avatar-online' : 'avatar'} style={{ '--size': `${size}px`, '--hue': hueOf(id) } as CSSProperties} aria-hidden="true">
      {icon ? <Icon name={icon} /> : initial(name)}
    </span>
  )
}

const hues = [5, 25, 48, 68, 150, 172, 205, 235, 260, 285, 310, 340] // without those of mud

/** An angle of the colour circle, the same for the same id everywhere. */
export function hueOf(id: string): number {
  let hash = 0x811ca139 // with this one the users of `petrel demo` differ well
  for (const c of id) hash = Math.imul(hash ^ (c.codePointAt(0) ?? 0), 0x01000193)
  hash = Math.imul(hash ^ hash >>> 15, 0x2c1b3c6d) // so that ids that differ little do not look alike
  hash = Math.imul(hash ^ hash >>> 12, 0x297a2d39)
  return hues[(hash >>> 8) % hues.length] ?? 0
}

const letter = /^[\p{L}\p{N}](?!\p{M})/u // one that has no marks
let signs: Intl.Segmenter | undefined // made when it is needed: a page that opens would wait for it

function initial(name: string): string {
  const text = name.trim()
  const first = letter.exec(text)?.[0] ?? (signs ??= new Intl.Segmenter()).segment(text)[Symbol.iterator]().next().value?.segment ?? '?'
  return first.toLocaleUpperCase()
}
