import { type CallOptions, type Client, type Code, isPetrelError, type Outgoing } from '@petrel-im/sdk'
import type { Key, Translation } from '../i18n/index.js'

/** The texts for the person, by error code. Codes that no action of a person causes are missing. */
export const reasons = {
  not_member: 'errorNotMember', forbidden: 'errorForbidden', too_large: 'errorTooLarge', no_target: 'errorNoTarget', no_user: 'errorNoUser', no_conversation: 'errorNotMember',
  rate_limited: 'errorRateLimited', bad_credentials: 'errorBadCredentials', user_exists: 'errorUserExists', handle_taken: 'errorHandleTaken', weak_password: 'errorPassword', invalid: 'errorInvalid', disk_full: 'errorDiskFull', overloaded: 'errorServerBusy',
  store_stalled: 'errorServerBusy', draining: 'errorServerBusy', user_disabled: 'errorDisabled', frame_too_large: 'errorTooLarge', too_late: 'errorTooLate', frozen: 'errorFrozen', muted: 'errorMuted', too_many_reports: 'errorServerBusy', no_device: 'errorNoDevice', unavailable: 'errorOffline',
  internal: 'errorServer', damaged: 'errorServer', unsupported: 'errorUnsupported', conflict: 'errorUnknown', too_old: 'unknowable',
} satisfies Readonly<Partial<Record<Code, Key>>>

/**
 * Returns the text for the person about an error code, in their language. An unknown code is shown itself, because
 * the message of the server is English and for developers.
 */
function errorText(code: string, t: Translation['t']): string {
  const known: Readonly<Partial<Record<string, Key>>> = reasons
  const key = Object.hasOwn(known, code) ? known[code] : undefined
  return key ? t(key) : code ? t('errorOther', { code }) : t('errorUnknown')
}

/** Returns the text for the person about a thrown error. */
export function thrownText(why: unknown, t: Translation['t']): string {
  if (!isPetrelError(why)) return t('errorUnknown')
  if (why.kind === 'store') return t('errorStore')
  return why.kind === 'link' || why.kind === 'silent' ? t('errorOffline') : errorText(why.code, t)
}

const lostMs = 3000

/** Options of a call whose effect shows only with its answer. Without a connection it fails within 3 s. */
export const soon = (client: Client): CallOptions => client.status().state === 'live' ? {} : { timeoutMs: lostMs }

/** Returns why a message waits, by the code of the last refusal. */
export function waitText(code: string, t: Translation['t']): string {
  return t(code === 'disk_full' ? 'waitDiskFull' : code === 'rate_limited' ? 'waitRate' : code === 'unanswered' ? 'waitAnswer' : 'waitBusy')
}

/** Returns why a message is not stored, or that nobody can know whether it is. */
export function failureText(o: Outgoing, t: Translation['t']): string {
  if (o.state === 'unknowable') return t(o.draft.edit || o.draft.recall ? 'unknowable' : 'unknowableAgain')
  const reason = errorText(o.error?.code ?? '', t)
  return o.draft.edit ? t('editRefused', { reason }) : o.draft.recall ? t('recallRefused', { reason }) : reason
}

/** Whether a message can be sent only if its text is made shorter. */
export function isTooLong(o: Outgoing): boolean {
  return o.state === 'rejected' && reasons[o.error?.code as keyof typeof reasons] === 'errorTooLarge'
}
