import type { Language } from '../i18n/index.js'

export interface Emoji {
  readonly sign: string
  readonly label: string
}

/** Emojis by group, in the order of Unicode, and a search in their names. */
export interface EmojiData {
  readonly groups: readonly { readonly group: number; readonly emojis: readonly Emoji[] }[]
  readonly search: (words: string) => readonly Emoji[]
}

/** What emojiModule.ts makes of emojibase-data: sign, label, tags, group. */
type Packed = readonly (readonly [sign: string, label: string, tags: string, group: number])[]

const loads: Readonly<Record<Language, () => Promise<{ default: Packed }>>> = {
  en: () => import('virtual:emoji/en'),
  zh: () => import('virtual:emoji/zh'),
}
const loaded = new Map<Language, Promise<EmojiData>>()

/** The emojis with their names in a language, read once. They are in the bundle: no other server is asked. */
export function loadEmoji(language: Language): Promise<EmojiData> {
  let data = loaded.get(language)
  if (!data) {
    data = loads[language]().then(({ default: packed }) => unpack(packed))
    loaded.set(language, data)
    data.catch(() => loaded.delete(language))
  }
  return data
}

function unpack(packed: Packed): EmojiData {
  const groups = new Map<number, Emoji[]>()
  const words: { readonly emoji: Emoji; readonly text: string }[] = []
  for (const [sign, label, tags, group] of packed) {
    const emoji = { sign, label }
    groups.set(group, [...groups.get(group) ?? [], emoji])
    words.push({ emoji, text: ` ${label} ${tags}`.toLowerCase() })
  }
  return {
    groups: [...groups].map(([group, emojis]) => ({ group, emojis })),
    search(part) {
      const wanted = part.toLowerCase().trim()
      const begins = words.filter((w) => w.text.includes(` ${wanted}`))
      return [...begins, ...words.filter((w) => !begins.includes(w) && w.text.includes(wanted))].map((w) => w.emoji).slice(0, 80)
    },
  }
}
