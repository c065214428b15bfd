// The functions of a page that the tests in a browser call.
import * as core from '../src/core/index.js'
import * as sdk from '../src/index.js'
import { play, type Vector } from './conformance.js'

/** The faults of the vectors that do not pass. */
function playAll(vectors: readonly Vector[]): string[] {
  return vectors.flatMap((v) => play(core, v).map((finding) => `${v.name}: ${finding}`))
}

export const page = { ...sdk, playAll }
Object.assign(globalThis, { petrel: page })
