import { usePreferences } from '../../src/preferences.js'
import { type Language, languageOf, type TranslationOf, translationOf } from '../../src/i18n/translation.js'
import { en, type Key } from './en.js'
import { zh } from './zh.js'

export type { Key } from './en.js'
export type Translation = TranslationOf<Key>

const translations: Readonly<Record<Language, Translation>> = { en: translationOf<Key>('en', en), zh: translationOf<Key>('zh', zh) }

export function useTranslation(): Translation {
  return translations[languageOf(usePreferences().language)]
}

/** The text of a key that begins with a group and ends with what the server said; what no text is for is shown as it is. */
export function named(tr: Translation, group: string, name: string): string {
  const key = `${group}_${name}`
  return key in en ? tr.t(key as Key) : name
}
