import { plainSign } from './tone.js'

export interface Emoji {
  readonly sign: string
  readonly label: string
  readonly toned: boolean // it comes in skin tones
}

/** Emojis by group, in the order of Unicode, and a search in their names. Blanks in names may be written as _. */
export interface EmojiData {
  readonly groups: readonly { readonly group: number; readonly emojis: readonly Emoji[] }[]
  /** The best ones first: what is called so, then what has a name that begins so, then what has such a word, one that begins so, or one with it inside. */
  readonly search: (words: string) => readonly Emoji[]
  /** The emoji that is called so. */
  readonly named: (name: string) => Emoji | undefined
  /** What an emoji is called, in whichever skin tone. */
  readonly labelOf: (sign: string) => string
}

/** What emojiModule.ts makes of emojibase-data. */
export type Packed = readonly (readonly [sign: string, label: string, names: string, tags: string, group: number, toned?: 1])[]

const most = 80 // that a search finds

/** Makes the data of a language from what is in the bundle. */
export function unpack(packed: Packed): EmojiData {
  const groups = new Map<number, Emoji[]>()
  const known: { readonly emoji: Emoji; readonly names: string; readonly words: string }[] = [] // each name, and each word, between lines and blanks
  for (const [sign, label, more, tags, group, skins] of packed) {
    const emoji = { sign, label, toned: skins === 1 }
    groups.set(group, [...groups.get(group) ?? [], emoji])
    const names = [label, ...more.split(' ')].map(plain)
    known.push({ emoji, names: `\n${names.join('\n')}\n`, words: ` ${names.join(' ')} ${tags.toLowerCase()} ` })
  }
  return {
    groups: [...groups].map(([group, emojis]) => ({ group, emojis })),
    search(words) {
      const wanted = plain(words)
      const found: Emoji[][] = [[], [], [], [], [], []]
      for (const { emoji, names, words: all } of known) {
        if (!all.includes(wanted)) continue
        const isWord = all.includes(` ${wanted} `)
        const rank = names.includes(`\n${wanted}\n`) ? 0 : names.includes(`\n${wanted}`) ? isWord ? 1 : 2 : isWord ? 3 : all.includes(` ${wanted}`) ? 4 : 5
        found[rank]?.push(emoji)
      }
      return found.flat().slice(0, most)
    },
    named: (name) => known.find(({ names }) => names.includes(`\n${plain(name)}\n`))?.emoji,
    labelOf: (sign) => known.find(({ emoji }) => plainSign(emoji.sign) === plainSign(sign))?.emoji.label ?? sign,
  }
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll('_', ' ').trim()
}
