import { fill } from './fillText.js'

export type Language = 'en' | 'zh'

/** A text, or its forms by the number in it, as the language counts. */
export type Text = string | { readonly one?: string; readonly other: string }

const tags: Readonly<Record<Language, string>> = { en: 'en', zh: 'zh-CN' }

/** The texts of a page in a language, and how it writes dates. */
export interface TranslationOf<Key extends string> {
  readonly language: Language
  readonly tag: string // for Intl
  /** The text of a key; {name} in it is replaced by the value, and {n} chooses the form. */
  readonly t: (key: Key, values?: Readonly<Record<string, string | number>>) => string
}

export function translationOf<Key extends string>(language: Language, texts: Readonly<Record<Key, Text>>): TranslationOf<Key> {
  let plural: Intl.PluralRules | undefined // made when it is needed: that takes 2 ms
  const isOne = (n: number): boolean => (plural ??= new Intl.PluralRules(tags[language])).select(n) === 'one'
  const t: TranslationOf<Key>['t'] = (key, values) => {
    const text = texts[key]
    const form = typeof text === 'string' ? text : isOne(Number(values?.['n'])) ? text.one ?? text.other : text.other
    return values ? fill(form, values) : form
  }
  return { language, tag: tags[language], t }
}

/** The language that the person has chosen, or else that of the browser. */
export function languageOf(chosen: 'auto' | Language, wanted: readonly string[] = navigator.languages): Language {
  if (chosen !== 'auto') return chosen
  for (const tag of wanted) {
    const first = tag.toLowerCase().split('-')[0]
    if (first === 'zh' || first === 'en') return first
  }
  return 'en'
}
