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

/**
 * Returns the text for a name from the server, under the key GROUP_NAME. A name without a text is returned itself.
 */
export function named(tr: Translation, group: string, name: string): string {
  const key = `${group}_${name}`
  return key in en ? tr.t(key as Key) : name
}
