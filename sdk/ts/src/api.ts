import { decode, type Entry, type Events, type MemberRef, type Role } from './core/index.js'
import type { Calls as Methods } from './wire/calls_gen.js'
import type { AccountJson, DeviceJson, EventsJson, RoleJson } from './wire/frames_gen.js'

/** A method of the API, as `petrel.v1.Service/Method`. */
export type Method = keyof Methods
export type RequestOf<M extends Method> = Methods[M][0]
export type ResponseOf<M extends Method> = Methods[M][1]

/** Options of a call. */
export interface CallOptions {
  /** Aborted, the call is rejected with the signal's reason. It may be done all the same. */
  readonly signal?: AbortSignal
  /** After so long it is rejected with `unavailable`, and may be done all the same; 30 s by itself, Infinity: never. */
  readonly timeoutMs?: number
}

/** What others may see of a user. */
export interface Account {
  readonly user: string
  readonly displayName: string
  readonly createdMs: number
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
  /** How many of its connections there are now. */
  readonly sessions: number
  /** It is the device that asks. */
  readonly current: boolean
  readonly revoked: boolean
}

/** A message that is pinned for all members. */
export interface PinnedMessage {
  readonly message: Entry
  /** Who pinned it: a user. */
  readonly by: string
  readonly timeMs: number
}

/** Who reacted to a message, and how. */
export interface UserReactions {
  readonly user: string
  readonly emojis: readonly string[]
}

const roles: Readonly<Record<Role, RoleJson>> = { '': 'ROLE_UNSPECIFIED', member: 'ROLE_MEMBER', admin: 'ROLE_ADMIN', owner: 'ROLE_OWNER' }

/**
 * The calls that chat clients need most; `call` makes any other. They are repeated without
 * harm when a connection ends before the answer, and rejected with a PetrelError.
 */
export abstract class Calls {
  /**
   * Calls a method of the API. A requestId that the request has a field for and leaves out
   * is set, so that a call whose answer is lost is repeated without harm. The request and
   * the response are in the JSON mapping: numbers of 64 bits are texts. Spec: P-12.4.
   */
  abstract call<M extends Method>(method: M, request: RequestOf<M>, options?: CallOptions): Promise<ResponseOf<M>>

  /** Makes a group of the user, who owns it, and of others. Codes: invalid, no_user, rate_limited. */
  async createGroup(title: string, users: readonly string[], options?: CallOptions): Promise<string> {
    return (await this.call('petrel.v1.ConversationService/CreateGroup', { title, users }, options)).conv ?? ''
  }

  /** Gives a group another title. It takes an admin or the owner. */
  async renameGroup(conv: string, title: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/RenameGroup', { conv, title }, options)
  }

  /** Adds users to a group. It takes an admin or the owner. */
  async addMembers(conv: string, users: readonly string[], options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/AddMembers', { conv, users }, options)
  }

  /** Removes users from a group. Admins remove members, the owner everybody else. */
  async removeMembers(conv: string, users: readonly string[], options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/RemoveMembers', { conv, users }, options)
  }

  /** Leaves a group; its owner hands it over first. */
  async leaveGroup(conv: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/LeaveGroup', { conv }, options)
  }

  /** Makes a member an admin or an admin a member. It takes the owner. */
  async setRole(conv: string, user: string, role: 'member' | 'admin', options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/SetRole', { conv, user, role: roles[role] }, options)
  }

  /** Makes a member the owner and the owner an admin. */
  async transferOwnership(conv: string, user: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/TransferOwnership', { conv, user }, options)
  }

  /** Ends a group for all. It takes the owner. */
  async dissolveGroup(conv: string, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.ConversationService/DissolveGroup', { conv }, options)
  }

  /** The members of a conversation, ascending by user: all pages of them. */
  async members(conv: string, options?: CallOptions): Promise<readonly MemberRef[]> {
    const all: MemberRef[] = []
    for (;;) {
      const page = await this.call('petrel.v1.ConversationService/ListMembers', { conv, after: all.at(-1)?.user ?? '' }, options)
      const members = entry({ members: { added: page.members ?? [] } }).members?.added ?? []
      all.push(...members)
      if (!page.more || members.length === 0) return all
    }
  }

  /** The devices of the user, the newest login first. */
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
   * Sets values of a conversation's settings, of another user's, or, if both are '', of the account's; '' removes a name. An application begins its
   * own names with a word of its own. The snapshots have the values once the server has stored them. Codes: invalid, no_conversation, rate_limited.
   * Spec: P-8.10.
   */
  async changeSettings(conv: string, user: string, values: Readonly<Record<string, string>>, options?: CallOptions): Promise<void> {
    await this.call('petrel.v1.AccountService/ChangeSettings', { conv, user, values }, options)
  }

  /** Silences notifications of a conversation until a time in Unix ms; 0 ends that. */
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

  /** Shows a conversation as unread. End that when the person opens it. */
  markUnread(conv: string, on: boolean, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { unread: one(on) }, options)
  }

  /** Makes clients hide the entries of a conversation up to a seq. The entries stay stored, also for the user. */
  clear(conv: string, upTo: number, options?: CallOptions): Promise<void> {
    return this.changeSettings(conv, '', { cleared_to: String(upTo) }, options)
  }

  /**
   * Has the server withhold what another user sends to the direct conversation, or ends
   * that. It is in force when block returns. The other user is told nothing of it. Codes:
   * invalid, rate_limited. Spec: P-5.4.
   */
  block(user: string, on: boolean, options?: CallOptions): Promise<void> {
    return this.changeSettings('', user, { blocked: one(on) }, options)
  }

  /**
   * Adds a reaction of the user to a message, or takes it away. To say twice the same does no
   * harm. Codes: no_target, forbidden (too many of them), rate_limited. Spec: P-5.11.
   */
  async react(conv: string, seq: number, emoji: string, removed = false, options?: CallOptions): Promise<void> {
    this.noted(conv, await this.call('petrel.v1.MessageService/React', { conv, seq: String(seq), emoji, removed }, options))
  }

  /**
   * Pins a message for all members, or unpins it. In a group it takes an admin or the owner.
   * Codes: no_target, forbidden, rate_limited. Spec: P-5.11.
   */
  async pin(conv: string, seq: number, removed = false, options?: CallOptions): Promise<void> {
    this.noted(conv, await this.call('petrel.v1.MessageService/Pin', { conv, seq: String(seq), removed }, options))
  }

  /** Lists the users who reacted to a message, with any emoji if it is '', ascending by user: all pages of them. */
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

  /** Lists the pinned messages of a conversation, the newest first: all pages of them. */
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

  /** A call has brought the note of an entry. A client shows it at once. */
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
