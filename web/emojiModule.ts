import { readFileSync } from 'node:fs'
import path from 'node:path'
import { plainSign, toned, tones } from './src/emoji/tone.js'

/** The prefix of an emoji module; a language follows. */
export const emojiPrefix = 'virtual:emoji/'

const newest = 15.1 // the version of 2023: the fonts of many people lack later emojis

/** Usual names of emojis that the data of the language lacks. */
const alsoCalled: Readonly<Record<string, Readonly<Record<string, string>>>> = { zh: { '2764': '爱心', '1F44D': '点赞 大拇指' } }

/**
 * Returns the source of the module with the emojis, their names in a language, and the usual short names such as
 * thumbsup. Parts of flags and skin tones have no group, and are left out. `web` is the folder web.
 */
export function emojiModule(web: string, language: string): string {
  const read = <T>(file: string): T => JSON.parse(readFileSync(path.join(web, `node_modules/emojibase-data/${file}.json`), 'utf8')) as T
  const tooNew = new Set(read<{ hexcode: string; version: number }[]>('en/data').filter((e) => e.version > newest).map((e) => e.hexcode))
  const all = read<{ unicode: string; hexcode: string; label: string; tags?: string[]; group?: number; order?: number; skins?: { unicode: string }[] }[]>(`${language}/compact`)
  const short = read<Record<string, string | string[]>>('en/shortcodes/github')
  const names = (hexcode: string, label: string): string => [...[short[hexcode] ?? []].flat().filter((name) => name.replaceAll('_', ' ') !== label.toLowerCase()), alsoCalled[language]?.[hexcode] ?? []].flat().join(' ')
  const packed = all.filter((e) => e.group !== undefined && e.group !== 2 && !tooNew.has(e.hexcode)).sort((a, b) => (a.order ?? 0) - (b.order ?? 0)).map((e) => [e.unicode, e.label, names(e.hexcode, e.label), (e.tags ?? []).join(' '), e.group, ...isToned(e) ? [1] : []])
  return `export default JSON.parse(${JSON.stringify(JSON.stringify(packed))})`
}

/**
 * Whether an emoji has exactly the five skin tones that `toned` makes. Pairs of people have more, one for each
 * person.
 */
function isToned({ unicode, skins = [] }: { readonly unicode: string; readonly skins?: readonly { readonly unicode: string }[] }): boolean {
  return skins.length === 5 && tones.slice(1).every((tone, i) => toned(unicode, tone) === skins[i]?.unicode && plainSign(skins[i].unicode) === plainSign(unicode))
}
