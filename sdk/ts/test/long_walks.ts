import { walks } from './walks.js'

const [first = 1, seeds = 10, steps = 10_000] = process.argv.slice(2).map(Number)
process.exit((await walks(first, seeds, steps)).length)
