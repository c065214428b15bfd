import { isPetrelError } from '@petrel-im/sdk'
import { type Names, nameOf } from '../account/useName.js'
import { thrownText } from '../chat/failureText.js'
import type { AnyKey } from '../i18n/useLaterTranslation.js'
import type { TranslationOf } from '../i18n/translation.js'

/** Returns the text about a failed change of members. It names the user who cannot be added, as the error does. */
export function membersFailure(why: unknown, names: Names, t: TranslationOf<AnyKey>['t']): string {
  const user = isPetrelError(why) && why.user
  if (user && why.code === 'forbidden') return t('errorCannotAdd', { name: nameOf(names, user) })
  if (user && why.code === 'no_user') return t('errorNoUserNamed', { name: nameOf(names, user) })
  return thrownText(why, t)
}
