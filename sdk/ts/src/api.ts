import { decode, type Entry, type Events, type MemberRef, type Role } from './core/index.js'
import type { Calls as Methods } from './wire/calls_gen.js'
import type { AccountJson, DeviceJson, EventsJson, RoleJson } from './wire/frames_gen.js'

/** A method of the API, as `petrel.v1.Service/Method`. */
export type Method = keyof Methods
export type RequestOf<M extends Method> = Methods[M][0]
export type ResponseOf<M extends Method> = Methods[M][1]

/** Options of a call. */
export interface CallOptions {
  /** When it is aborted, the call is rejected with the signal's reason. The server may still carry it out. */
  readonly signal?: AbortSignal
  /**
   * After this time the call is rejected with `unavailable`; the server may still carry it out. 30 s by
   * default; Infinity: never.
   */
  readonly timeoutMs?: number
}

/** The profile of a user, as the caller may see it. Hidden fields, and those that are not set, are absent. Spec: P-14.1. */
export interface Account {
  readonly user: string
  readonly displayName: string
  readonly createdMs: number
  readonly about?: string
  readonly handle?: string
  readonly fields?: Readonly<Record<string, string>>
  /** Compare it for equality only. Spec: P-14.2. */
  readonly version?: string
}

/** An installation where the user has logged in. */
export interface Device {
  readonly id: string
  /** "phone", "desktop", "web", … */
  readonly kind: string
  readonly name: string
  /** Name and version of the application, as it said when it last connected. */
  readonly client: string
  readonly loginMs: number
  /** The number of its present connections. */
  readonly sessions: number
  /** It is the device of the caller. */
  readonly current: boolean
  readonly revoked: boolean
}

/** A message that is pinned for all members. */
export interface PinnedMessage {
  readonly message: Entry
  /** The user who pinned it. */
  readonly by: string
  readonly timeMs: number
}

/** A user, and the emojis of that user at a message. */
export interface UserReactions {
  readonly user: string
  readonly emojis: readonly string[]
}

const roles: Readonly<Record<Role, RoleJson>> = { '': 'ROLE_UNSPECIFIED', member: 'ROLE_MEMBER', admin: 'ROLE_ADMIN', owner: 'ROLE_OWNER' }

/**
 * The calls that chat clients need most; `call` makes any other. A call that fails rejects with a PetrelError. If
 * the connection ends before the answer, the call is repeated, which does no harm.
 */
export abstract class Calls {
  /**
   * Calls a method of the API. If the request has a field requestId and none is given, one is set, so a repeat after
   * a lost answer does no harm. Request and response are in the JSON mapping: 64-bit numbers are texts. Spec: P-12.4.
   */
  abstract call<M extends Method>(method: M, request: RequestOf<M>, options?: CallOptions): Promise<ResponseOf<M>>

  /**
   * Makes a group of the user, who becomes its owner, and of others. It returns the conversation id.
   * Codes: invalid, no_user, rate_limited.
   */
  async createGroup(title: string, users: readonly string[], options?: CallOptions): Promise<string> {
    return (await this.call('petrel.v1.ConversationService/CreateGroup', { title, users }, options)).conv ?? ''
  }

  /** Gives a group another title. The caller has to be an admin or the owner. */
  async renameGroup(conv: string, title: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/RenameGroup', { conv, title }, options)
  }

  /** Adds users to a group. The caller has to be an admin or the owner. */
  async addMembers(conv: string, users: readonly string[], options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/AddMembers', { conv, users }, options)
  }

  /** Removes users from a group. An admin can remove members; the owner can remove admins too. */
  async removeMembers(conv: string, users: readonly string[], options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/RemoveMembers', { conv, users }, options)
  }

  /** Leaves a group. An owner has to transfer the ownership first. */
  async leaveGroup(conv: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/LeaveGroup', { conv }, options)
  }

  /** Makes a member an admin or an admin a member. The caller has to be the owner. */
  async setRole(conv: string, user: string, role: 'member' | 'admin', options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/SetRole', { conv, user, role: roles[role] }, options)
  }

  /** Makes a member the owner and the owner an admin. */
  async transferOwnership(conv: string, user: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/TransferOwnership', { conv, user }, options)
  }

  /** Ends a group for all members. The caller has to be the owner. */
  async dissolveGroup(conv: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/DissolveGroup', { conv }, options)
  }

  /** Lists the members of a conversation, ascending by user, page by page until the end. */
  async members(conv: string, options?: CallOptions): Promise<readonly MemberRef[]> {
    const all: MemberRef[] = []
    for (;;) {
      const page = await this.call('petrel.v1.ConversationService/ListMembers', { conv, after: all.at(-1)?.user ?? '' }, options)
      const members = entry({ members: { added: page.members ?? [] } }).members?.added ?? []
      all.push(...members)
      if (!page.more || members.length === 0) return all
    }
  }

  /** Lists the devices of the user, the newest login first. */
  async devices(options?: CallOptions): Promise<readonly Device[]> {
    return ((await this.call('petrel.v1.AccountService/ListDevices', {}, options)).devices ?? []).map(device)
  }

  /** Gives a device of the user another name. Code: no_device. */
  async renameDevice(id: string, name: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.AccountService/RenameDevice', { device: id, name }, options)
  }

  /** Voids the tokens of a device of the user and ends its sessions. Code: no_device. */
  async revokeDevice(id: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.AccountService/RevokeDevice', { device: id }, options)
  }

  /** Finds a user by the exact id. Code: no_user. */
  async getUser(user: string, options?: CallOptions): Promise<Account> {
    return account(await this.call('petrel.v1.AccountService/GetUser', { user }, options))
  }

  /**
   * Sets settings of a conversation, of another user, or, if conv and user are '', of the account. The value ''
   * removes a setting. Names that an application defines begin with a prefix of its own. The snapshots have the
   * values once the server has stored them. Codes: invalid, no_conversation, rate_limited. Spec: P-8.10.
   */
  async changeSettings(conv: string, user: string, values: Readonly<Record<string, string>>, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.AccountService/ChangeSettings', { conv, user, values }, options)
  }

  /** Silences notifications of a conversation until a time in Unix ms; 0 ends the silence. */
  mute(conv: string, until: number, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { muted_until: until > 0 ? String(Math.max(1, Math.floor(until))) : '' }, options)
  }

  /** Sets which messages of a conversation cause a notification; '' is the application's default. */
  notify(conv: string, level: 'all' | 'mentions' | 'nothing' | '', options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { notify: level }, options)
  }

  /** Pins a conversation to the top of the list, in the order of these numbers; 0 unpins it. */
  pinConversation(conv: string, order: number, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { pinned: order > 0 ? String(order) : '' }, options)
  }

  /** Archives a conversation, or brings it back. */
  archive(conv: string, on: boolean, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { archived: one(on) }, options)
  }

  /** Marks a conversation as unread, or removes the mark, as when the person opens the conversation. */
  markUnread(conv: string, on: boolean, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { unread: one(on) }, options)
  }

  /**
   * Makes clients hide the entries of a conversation up to a seq. The server keeps them, and still gives them
   * to the user.
   */
  clear(conv: string, upTo: number, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { cleared_to: String(upTo) }, options)
  }

  /**
   * Blocks a user, or ends the block. The server withholds the messages of a blocked user in the direct
   * conversation. The block is in force when the promise is resolved. The other user is not told.
   * Codes: invalid, rate_limited. Spec: P-5.4.
   */
  block(user: string, on: boolean, options?: CallOptions): Promise<void> {
    return this.changeSettings('', user, { blocked: one(on) }, options)
  }

  /**
   * Adds a reaction of the user to a message, or removes it. A repeat does no harm. Codes: no_target, forbidden
   * (too many of them), rate_limited. Spec: P-5.11.
   */
  async react(conv: string, seq: number, emoji: string, removed = false, options?: CallOptions): Promise<void> {
    this.noted(conv, await this.call('petrel.v1.MessageService/React', { conv, seq: String(seq), emoji, removed }, options))
  }

  /**
   * Pins a message for all members, or unpins it. In a group the caller has to be an admin or the owner.
   * Codes: no_target, forbidden, rate_limited. Spec: P-5.11.
   */
  async pin(conv: string, seq: number, removed = false, options?: CallOptions): Promise<void> {
    this.noted(conv, await this.call('petrel.v1.MessageService/Pin', { conv, seq: String(seq), removed }, options))
  }

  /**
   * Lists the users who reacted to a message with an emoji ('': any), ascending by user, page by page until the end.
   */
  async whoReacted(conv: string, seq: number, emoji = '', options?: CallOptions): Promise<readonly UserReactions[]> {
    const all: UserReactions[] = []
    let after: string | undefined = ''
    do {
      const { users = [], next }: ResponseOf<'petrel.v1.MessageService/ListReactions'> = await this.call('petrel.v1.MessageService/ListReactions', { conv, seq: String(seq), emoji, after }, options)
      for (const { user = '', emojis = [] } of users) all.push({ user, emojis })
      after = next
    } while (after)
    return all
  }

  /** Lists the pinned messages of a conversation, the newest first, page by page until the end. */
  async pins(conv: string, options?: CallOptions): Promise<readonly PinnedMessage[]> {
    const all: PinnedMessage[] = []
    let before: string | undefined = '0'
    do {
      const { pins = [], next }: ResponseOf<'petrel.v1.MessageService/ListPins'> = await this.call('petrel.v1.MessageService/ListPins', { conv, before }, options)
      for (const { message = {}, by = '', timeMs = '0' } of pins) all.push({ message: entry(message), by, timeMs: Number(timeMs) })
      before = next
    } while (before)
    return all
  }

  /** Takes the note of an entry from the answer of a call. A client overrides it to show the note at once. */
  protected noted(_conv: string, _answer: ResponseOf<'petrel.v1.MessageService/React'>): void {}
}

/** The value of a boolean setting. */
const one = (on: boolean): string => on ? '1' : ''

function device(d: DeviceJson): Device {
  return { id: '', kind: '', name: '', client: '', sessions: 0, current: false, revoked: false, ...d, loginMs: Number(d.loginMs ?? 0) }
}

function account(a: AccountJson): Account {
  return { user: '', displayName: '', ...a, createdMs: Number(a.createdMs ?? 0) }
}

/** Converts pushed objects inside an answer into the core's events. */
export function eventsOf(events: EventsJson): Events {
  const f = decode({ events })
  if (f.kind !== 'events') throw new Error() // unreachable: it was made of events
  return f.events
}

function entry(message: NonNullable<EventsJson['messages']>[number]): Entry {
  return eventsOf({ messages: [message] }).messages[0] as Entry
}
