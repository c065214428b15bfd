import { type Language, useTranslation } from './index.js'
import { type LaterKey, laterEn, laterZh } from './laterTexts.js'
import { type TranslationOf, translationOf } from './translation.js'

const translations: Readonly<Record<Language, TranslationOf<LaterKey>>> = { en: translationOf<LaterKey>('en', laterEn), zh: translationOf<LaterKey>('zh', laterZh) }

/** Returns the texts of laterTexts.ts in the language of the person. */
export function useLaterTexts(): TranslationOf<LaterKey>['t'] {
  return translations[useTranslation().language].t
}
