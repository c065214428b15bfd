import { show } from './conversation.js'
import type { InboxSettings, PersonalValue, SyncPage } from './frames.js'
import type { Personal } from './model.js'
import { put, settingKey } from './rows.js'
import type { Conv, Core, Live } from './state.js'

/**
 * Returns the subject of a setting, as a key: a conversation, a user, or, if both are empty, the account. Ids
 * have no slash.
 */
function subject(conv: string, user: string): string {
  return `${conv}/${user}`
}

/** Returns the value of a setting; '' if it is not set. */
export function setting(c: Core, conv: string, user: string, name: string): string {
  return c.settings.get(subject(conv, user))?.get(name)?.value ?? ''
}

/** Applies the settings of a page of a sync. Spec: P-8.10. */
export function takePersonal(c: Core, lv: Live, p: SyncPage): void {
  if (p.personalReset) {
    for (const names of c.settings.values()) {
      for (const s of names.values()) {
        if (!lv.pushed.has(settingKey(s.conv, s.user, s.name))) dropSetting(c, s) // a value that was pushed since may be newer than the page
      }
    }
  }
  for (const s of p.personal) takeSetting(c, s)
}

/** Applies an inbox entry that changes settings. */
export function takePushed(c: Core, lv: Live, seq: number, s: InboxSettings): void {
  for (const [name, value] of s.values) {
    takeSetting(c, { seq, conv: s.conv, user: s.user, name, value })
    lv.pushed.add(settingKey(s.conv, s.user, name))
  }
}

/**
 * Applies a value, unless the client has a newer one. A removed value stays in memory with its seq, so that an
 * older value that arrives later is ignored. Spec: S-10.1.
 */
export function takeSetting(c: Core, s: PersonalValue): void {
  const of = subject(s.conv, s.user)
  let names = c.settings.get(of)
  if ((names?.get(s.name)?.seq ?? 0) > s.seq) return
  if (!names) {
    names = new Map()
    c.settings.set(of, names)
  }
  names.set(s.name, s)
  put(c, settingKey(s.conv, s.user, s.name), s.value === '' ? null : s)
  settingChanged(c, s)
}

/** Forgets all settings. */
export function dropSettings(c: Core): void {
  for (const names of c.settings.values()) for (const s of names.values()) dropSetting(c, s)
}

function dropSetting(c: Core, s: PersonalValue): void {
  const of = subject(s.conv, s.user)
  const names = c.settings.get(of)
  names?.delete(s.name)
  if (names?.size === 0) c.settings.delete(of)
  put(c, settingKey(s.conv, s.user, s.name), null)
  settingChanged(c, s)
}

function settingChanged(c: Core, s: PersonalValue): void {
  c.changed.account = true
  const v = c.convs.get(s.user === '' ? s.conv : c.direct.get(s.user) ?? '')
  if (v) show(c, v)
}

/** Returns the user's settings of a conversation. */
export function personal(c: Core, v: Conv): Personal {
  const value = (name: string): string => setting(c, v.id, '', name)
  const number = (name: string): number => Number(value(name)) || 0 // the server accepts only numbers
  return {
    mutedUntilMs: number('muted_until'), notify: value('notify'), pinned: number('pinned'), archived: value('archived') !== '', unread: value('unread') !== '',
    clearedTo: number('cleared_to'), hidden: value('hidden'), blocked: v.peer !== '' && setting(c, '', v.peer, 'blocked') !== '',
    firstMessages: v.peer === '' || setting(c, '', v.peer, 'first_messages') === '' ? '' : setting(c, '', v.peer, 'first_messages').endsWith('refused') ? 'refused' : 'waiting',
  }
}

/** Returns the users that the user blocks, sorted. */
export function blocked(c: Core): string[] {
  const users: string[] = []
  for (const names of c.settings.values()) {
    const s = names.get('blocked')
    if (s && s.user !== '' && s.value !== '') users.push(s.user)
  }
  return users.sort()
}
