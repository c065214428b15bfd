import { en, type Key } from './en.js'
import { type Language, useTranslation } from './index.js'
import { type LaterKey, laterEn, laterZh } from './laterTexts.js'
import { type TranslationOf, translationOf } from './translation.js'
import { zh } from './zh.js'

export type AnyKey = Key | LaterKey

const translations: Readonly<Record<Language, TranslationOf<AnyKey>>> = { en: translationOf<AnyKey>('en', { ...en, ...laterEn }), zh: translationOf<AnyKey>('zh', { ...zh, ...laterZh }) }

/** Returns the translation for a part that is loaded later (parts.ts). It has the texts of laterTexts.ts too. */
export function useLaterTranslation(): TranslationOf<AnyKey> {
  return translations[useTranslation().language]
}
