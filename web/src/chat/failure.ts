import { isPetrelError, type Outgoing } from '@petrel-im/sdk'
import type { Key, Translation } from '../i18n/index.js'

const reasons: Readonly<Record<string, Key>> = {
  not_member: 'errorNotMember', forbidden: 'errorForbidden', too_large: 'errorTooLarge', no_target: 'errorNoTarget', no_user: 'errorNoUser', no_conversation: 'errorNotMember',
  rate_limited: 'errorRateLimited', bad_credentials: 'errorBadCredentials', user_exists: 'errorUserExists', invalid: 'errorInvalid', disk_full: 'errorServerBusy', overloaded: 'errorServerBusy',
  store_stalled: 'errorServerBusy', draining: 'errorServerBusy', edit_window: 'errorForbidden', recall_window: 'errorForbidden', group_full: 'errorGroupFull',
}

/** What to tell a person about an error: by its code; of one that is not known the text of the server. */
export function errorText(code: string, message: string, t: Translation['t']): string {
  const key = reasons[code]
  return key ? t(key) : message || t('errorUnknown')
}

/** The same of something that was thrown. */
export function thrownText(why: unknown, t: Translation['t']): string {
  if (!isPetrelError(why)) return t('errorUnknown')
  if (why.kind === 'store') return t('errorStore')
  return why.kind === 'link' || why.kind === 'silent' ? t('errorOffline') : errorText(why.code, why.message, t)
}

/** Why a message is not stored, or that nobody knows. */
export function failureText(o: Outgoing, t: Translation['t']): string {
  if (o.state === 'unknowable') return t('unknowable')
  const reason = errorText(o.error?.code ?? '', o.error?.message ?? '', t)
  return o.draft.edit ? t('editRefused', { reason }) : o.draft.recall ? t('recallRefused', { reason }) : reason
}
