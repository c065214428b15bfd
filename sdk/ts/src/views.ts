import { Calls } from './api.js'
import {
  blockedUsers, conversation, type Conversation, conversations, direct, markDelivered, markRead, type Message, messages, type Outgoing, pending, pendingTo,
  presence, type Presence, quote, type Quoted, sayTyping, setFocus, setting, setWatch, type Signal, signals, type Unread, unreadTotal,
} from './core/index.js'
import type { CoreDriver } from './coredriver.js'

/** Reads the client's state, and changes it for the user. No method here waits for the server. */
export abstract class Views extends Calls {
  protected abstract readonly driver: CoreDriver

  // --- what there is ---

  /**
   * Returns all conversations that the client has heard of, those with the newest messages first. Those that no sync
   * has described yet have `known` false.
   */
  conversations(): readonly Conversation[] {
    return this.driver.read(conversations)
  }

  conversation(conv: string): Conversation | undefined {
    return this.driver.read((core) => conversation(core, conv))
  }

  /** Returns the id of the direct conversation with user; '' before its first message. */
  direct(user: string): string {
    return this.driver.read((core) => direct(core, user))
  }

  /**
   * Returns the held entries of a conversation above `after`, oldest first, at most `limit` (0: all). The only
   * seqs missing among them are those that the user may not read, and those of `Conversation.damaged`. Edits
   * and recalls are applied to their targets; they are entries of their own as well.
   */
  messages(conv: string, after = 0, limit = 0): readonly Message[] {
    return this.driver.read((core) => messages(core, conv, after, limit))
  }

  /**
   * Returns the messages to a conversation that are not among its `messages` yet: under way, or failed and not
   * discarded.
   */
  pending(conv: string): readonly Outgoing[] {
    return this.driver.read((core) => pending(core, conv))
  }

  /** Returns the pending messages to user, even before the direct conversation exists. */
  pendingTo(user: string): readonly Outgoing[] {
    return this.driver.read((core) => pendingTo(core, user))
  }

  /**
   * Returns the quote of the entry seq, which another entry answers. 'none': the user cannot see it. 'asked':
   * the client has asked the server; when the answer comes, a change names the conversation. Spec: P-5.9.
   */
  quote(conv: string, seq: number): Quoted {
    return this.driver.apply((core) => quote(core, conv, seq))
  }

  /** The counts of unread messages. */
  unread(): Unread {
    return this.driver.read(unreadTotal)
  }

  /** The value of a setting: of a conversation, of another user, or, if both are '', of the account. */
  setting(conv: string, user: string, name: string): string {
    return this.driver.read((core) => setting(core, conv, user, name))
  }

  /** The users that the user blocks, sorted. */
  blocked(): readonly string[] {
    return this.driver.read(blockedUsers)
  }

  /**
   * Returns the newest signals of others, at most a minute old, oldest first: one for each conversation, sender
   * and kind. `typing` signals are not among them: see `Conversation.typing`.
   */
  signals(): readonly Signal[] {
    return this.driver.read(signals)
  }

  /** Returns the presence of a watched user; undefined if it is not known, for example without a connection. */
  presence(user: string): Presence | undefined {
    return this.driver.read((core) => presence(core, user))
  }

  // --- what the user does ---

  /**
   * Moves the user's read cursor up to seq, the newest entry that the person has seen. Snapshots show that at
   * once. The server gets at most one move a second, and an unsent move survives a restart. Spec: P-8.6.
   */
  markRead(conv: string, seq: number): void {
    this.driver.apply((core) => markRead(core, conv, seq))
  }

  /** Records that this device holds the entries up to seq. Use it with the option manualDelivered. */
  markDelivered(conv: string, seq: number): void {
    this.driver.apply((core) => markDelivered(core, conv, seq))
  }

  /**
   * Sets the conversations whose entries the client wants as soon as they are stored. Of the others it gets
   * only the newest head and the count of unread messages. Without an argument it wants the entries of all, as
   * at the start. Spec: P-6.5.
   */
  focus(convs?: readonly string[]): void {
    this.driver.apply((core) => setFocus(core, convs))
  }

  /**
   * Shows others that the user is writing. Call it for each key: it sends at most one signal in 3 s. Spec: P-13.2.
   */
  typing(conv: string): void {
    this.driver.apply((core) => sayTyping(core, conv))
  }

  /**
   * Sets the users whose presence the application wants to know, at most 200. It replaces the former list. conv: a
   * conversation of the user, so that the presences of its members tell the versions of their profiles. Those of
   * direct conversations do so in any case. Spec: P-13.5, P-14.5.
   */
  watch(users: readonly string[], conv = ''): void {
    this.driver.apply((core) => setWatch(core, users, conv))
  }
}
