import { readdirSync, readFileSync } from 'node:fs'
import type { Vector } from './conformance.js'

const folder = '../conformance'

/** The vectors of sdk/conformance. */
export const vectors: readonly Vector[] = readdirSync(folder).filter((file) => file.endsWith('.json')).sort()
  .flatMap((file) => JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')) as Vector[])

/** The clauses of sdk/SPEC.md; true: no script can see it, and each SDK tests it by itself. */
export const clauses: ReadonlyMap<string, boolean> = new Map(
  [...readFileSync('../SPEC.md', 'utf8').matchAll(/^\*\*(S-\d+\.\d+) (.*?)(?:\n\n|\n?$(?![\s\S]))/gms)].map(([, clause = '', says = '']) => [clause, says.trimEnd().endsWith('*(client)*')]),
)
