import type { ComponentProps, ReactElement } from 'react'
import { Field } from '../../ui/index.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'

/** Returns the number of characters, as the server counts them. */
export function charactersIn(text: string): number {
  return [...text].length
}

/** A field for a text of at most `most` characters. Without another hint it shows how many there are. */
export function CountedField({ most, hint, error, ...more }: ComponentProps<typeof Field> & { readonly value: string; readonly most: number }): ReactElement {
  const { t } = useLaterTranslation()
  const n = charactersIn(more.value)
  return <Field autoComplete="off" {...more} hint={hint ?? t('characterCount', { n, most })} error={n > most ? t('charactersTooMany', { n: n - most }) : error} />
}
