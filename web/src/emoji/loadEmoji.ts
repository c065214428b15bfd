import type { Language } from '../i18n/index.js'
import { type EmojiData, type Packed, unpack } from './search.js'

const loads: Readonly<Record<Language, () => Promise<{ default: Packed }>>> = {
  en: () => import('virtual:emoji/en'),
  zh: () => import('virtual:emoji/zh'),
}
const loaded = new Map<Language, Promise<EmojiData>>()

/** Loads the emojis with their names in a language, once. They are in the bundle, so no other server is asked. */
export function loadEmoji(language: Language): Promise<EmojiData> {
  let data = loaded.get(language)
  if (!data) {
    data = loads[language]().then(({ default: packed }) => unpack(packed))
    loaded.set(language, data)
    data.catch(() => loaded.delete(language))
  }
  return data
}
