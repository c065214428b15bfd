import { type Code, isPetrelError } from '@petrel-im/sdk'
import { thrownText } from '../chat/failureText.js'
import type { LaterKey } from '../i18n/laterTexts.js'
import type { useLaterTranslation } from '../i18n/useLaterTranslation.js'

/** The texts about refusals of the server that mean something else for contacts than elsewhere, by error code. */
export const contactReasons = {
  no_contact: 'errorNoContact', too_many_contacts: 'errorManyContacts', forbidden: 'errorContactsManaged', rate_limited: 'errorLookUps',
} satisfies Readonly<Partial<Record<Code, LaterKey>>>

/** Returns the text for the person about a change of a contact that has failed. */
export function contactFailure(why: unknown, t: ReturnType<typeof useLaterTranslation>['t']): string {
  const code = isPetrelError(why) ? why.code : ''
  return code in contactReasons ? t(contactReasons[code as keyof typeof contactReasons]) : thrownText(why, t)
}
