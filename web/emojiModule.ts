import { readFileSync } from 'node:fs'
import path from 'node:path'

/** What names of emojis are imported as: this and a language. */
export const emojiPrefix = 'virtual:emoji/'

const newest = 15.1 // of 2023: the fonts of many people do not have later ones, which are empty cells there

/** The module with the emojis and their names in a language, and nothing else of the data about them. Components of flags and skins have no group. `web` is the folder web. */
export function emojiModule(web: string, language: string): string {
  const read = <T>(file: string): T => JSON.parse(readFileSync(path.join(web, `node_modules/emojibase-data/${file}.json`), 'utf8')) as T
  const tooNew = new Set(read<{ hexcode: string; version: number }[]>('en/data').filter((e) => e.version > newest).map((e) => e.hexcode))
  const all = read<{ unicode: string; hexcode: string; label: string; tags?: string[]; group?: number; order?: number }[]>(`${language}/compact`)
  const packed = all.filter((e) => e.group !== undefined && e.group !== 2 && !tooNew.has(e.hexcode)).sort((a, b) => (a.order ?? 0) - (b.order ?? 0)).map((e) => [e.unicode, e.label, (e.tags ?? []).join(' '), e.group])
  return `export default JSON.parse(${JSON.stringify(JSON.stringify(packed))})`
}
