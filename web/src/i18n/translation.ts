import { fill } from './fillText.js'

export type Language = 'en' | 'zh'

/** A text, or its singular and plural forms. */
export type Text = string | { readonly one?: string; readonly other: string }

const tags: Readonly<Record<Language, string>> = { en: 'en', zh: 'zh-CN' }

/** The texts of a page in one language, and its date format. */
export interface TranslationOf<Key extends string> {
  readonly language: Language
  readonly tag: string // for Intl
  /**
   * Returns the text of a key. {name} in it is replaced by the value of that name; the value n chooses singular or
   * plural.
   */
  readonly t: (key: Key, values?: Readonly<Record<string, string | number>>) => string
}

export function translationOf<Key extends string>(language: Language, texts: Readonly<Record<Key, Text>>): TranslationOf<Key> {
  let plural: Intl.PluralRules | undefined // made on demand, because it takes 2 ms
  const isOne = (n: number): boolean => (plural ??= new Intl.PluralRules(tags[language])).select(n) === 'one'
  const t: TranslationOf<Key>['t'] = (key, values) => {
    const text = texts[key]
    const form = typeof text === 'string' ? text : isOne(Number(values?.['n'])) ? text.one ?? text.other : text.other
    return values ? fill(form, values) : form
  }
  return { language, tag: tags[language], t }
}

/**
 * Returns the language that the person has chosen. With 'auto' it is the first one of `wanted` that has texts, or
 * else English.
 */
export function languageOf(chosen: 'auto' | Language, wanted: readonly string[] = navigator.languages): Language {
  if (chosen !== 'auto') return chosen
  for (const tag of wanted) {
    const first = tag.toLowerCase().split('-')[0]
    if (first === 'zh' || first === 'en') return first
  }
  return 'en'
}
