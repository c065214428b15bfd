import { useEnvironment } from '../environment.js'
import { preferences, usePreferences } from '../preferences.js'
import { en, type Key } from './en.js'
import { type Language, languageOf, type TranslationOf, translationOf } from './translation.js'
import { zh } from './zh.js'

export type { Key } from './en.js'
export { type Language, languageOf, type Text } from './translation.js'
export type Translation = TranslationOf<Key>

const translations: Readonly<Record<Language, Translation>> = { en: translationOf<Key>('en', en), zh: translationOf<Key>('zh', zh) }

let own: { readonly chosen: 'auto' | Language; readonly translation: Translation } | undefined // kept, because each drawn message asks for it

function chosenBy(chosen: 'auto' | Language): Translation {
  if (own?.chosen !== chosen) own = { chosen, translation: translations[languageOf(chosen)] }
  return own.translation
}

export function useTranslation(): Translation {
  const { language } = useEnvironment()
  const preferred = usePreferences().language
  return language ? translations[language] : chosenBy(preferred)
}

/** Returns the translation outside of components. */
export function currentTranslation(): Translation {
  return chosenBy(preferences().language)
}
