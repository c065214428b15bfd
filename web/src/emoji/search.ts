import { plainSign } from './tone.js'

export interface Emoji {
  readonly sign: string
  readonly label: string
  readonly toned: boolean // the emoji exists in skin tones
}

/** Emojis by group, in the order of Unicode, and a search in their names. In a search _ stands for a blank. */
export interface EmojiData {
  readonly groups: readonly { readonly group: number; readonly emojis: readonly Emoji[] }[]
  /**
   * Returns the emojis that match, the best ones first: those with exactly this name; with a name that begins with
   * it, first as a whole word; with it as a word; with a word that begins with it; with it anywhere.
   */
  readonly search: (words: string) => readonly Emoji[]
  /** Returns the emoji with this name. */
  readonly named: (name: string) => Emoji | undefined
  /** Returns the label of an emoji in any skin tone. */
  readonly labelOf: (sign: string) => string
}

/** The form that emojiModule.ts writes. */
export type Packed = readonly (readonly [sign: string, label: string, names: string, tags: string, group: number, toned?: 1])[]

const most = 80 // the most results of a search

/** Makes the data of a language from its packed form. */
export function unpack(packed: Packed): EmojiData {
  const groups = new Map<number, Emoji[]>()
  const known: { readonly emoji: Emoji; readonly names: string; readonly words: string }[] = [] // names are between line feeds, words between blanks, so that whole ones can be found
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
