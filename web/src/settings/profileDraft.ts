import type { AnyKey } from '../i18n/useLaterTranslation.js'

export const mostAbout = 140 // characters. P-14.1
const mostNameBytes = 128

/** A field of the profile that the person edits. */
export type ProfileField = 'displayName' | 'about' | 'handle'
export type ProfileDraft = Readonly<Record<ProfileField, string>>

/** Returns what is wrong with a field that the person has typed, if that shows without the server. */
export function checkProfile(field: ProfileField, text: string): AnyKey | undefined {
  if (field === 'displayName') return new TextEncoder().encode(text).length > mostNameBytes ? 'errorNameLong' : undefined
  if (field === 'about') return [...text].length > mostAbout ? 'errorAboutLong' : undefined
  if (text === '') return undefined // the handle is given back
  if (!/^[a-z0-9_.]*$/.test(text)) return 'errorHandleSigns'
  return text.length < 3 ? 'errorHandleShort' : text.length > 32 ? 'errorHandleLong' : undefined
}

/** The texts about refusals of the server that mean something else for a field than elsewhere, by error code. */
export const refusal: Readonly<Record<ProfileField, Readonly<Partial<Record<string, AnyKey>>>>> = {
  displayName: { invalid: 'errorReserved' },
  about: {},
  handle: { invalid: 'errorReserved' },
}
