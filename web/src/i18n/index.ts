import { useEnvironment } from '../environment.js'
import { preferences, usePreferences } from '../preferences.js'
import { en } from './en.js'
import { fill } from './fill.js'
import { zh } from './zh.js'

export type Language = 'en' | 'zh'
export type Key = keyof typeof en

/** A text, or its forms by the number in it, as the language counts. */
export type Text = string | { readonly one?: string; readonly other: string }
export type Texts = Readonly<Record<Key, Text>>

const texts: Readonly<Record<Language, Texts>> = { en, zh }
const tags: Readonly<Record<Language, string>> = { en: 'en', zh: 'zh-CN' }

/** The texts of a language, and how it writes dates. */
export interface Translation {
  readonly language: Language
  readonly tag: string // for Intl
  /** The text of a key; {name} in it is replaced by the value, and {n} chooses the form. */
  readonly t: (key: Key, values?: Readonly<Record<string, string | number>>) => string
}

function translation(language: Language): Translation {
  let plural: Intl.PluralRules | undefined // made when it is needed: that takes 2 ms
  const isOne = (n: number): boolean => (plural ??= new Intl.PluralRules(tags[language])).select(n) === 'one'
  const t: Translation['t'] = (key, values) => {
    const text = texts[language][key]
    const form = typeof text === 'string' ? text : isOne(Number(values?.['n'])) ? text.one ?? text.other : text.other
    return values ? fill(form, values) : form
  }
  return { language, tag: tags[language], t }
}

const translations: Readonly<Record<Language, Translation>> = { en: translation('en'), zh: translation('zh') }

/** The language that the person has chosen, or else that of the browser. */
export function languageOf(chosen: 'auto' | Language, wanted: readonly string[] = navigator.languages): Language {
  if (chosen !== 'auto') return chosen
  for (const tag of wanted) {
    const first = tag.toLowerCase().split('-')[0]
    if (first === 'zh' || first === 'en') return first
  }
  return 'en'
}

let own: { readonly chosen: 'auto' | Language; readonly translation: Translation } | undefined // of each message that is drawn somebody asks

function translationOf(chosen: 'auto' | Language): Translation {
  if (own?.chosen !== chosen) own = { chosen, translation: translations[languageOf(chosen)] }
  return own.translation
}

export function useTranslation(): Translation {
  const { language } = useEnvironment()
  const preferred = usePreferences().language
  return language ? translations[language] : translationOf(preferred)
}

/** The same outside of components. */
export function currentTranslation(): Translation {
  return translationOf(preferences().language)
}
