import { Calls } from './api.js'
import {
  blockedUsers, conversation, type Conversation, conversations, direct, markDelivered, markRead, type Message, messages, type Outgoing, pending, pendingTo,
  presence, type Presence, quote, type Quoted, sayTyping, setFocus, setting, setWatch, type Signal, signals, type Unread, unreadTotal,
} from './core/index.js'
import type { Turns } from './coredriver.js'

/** The client's state, and the user's changes of it. Nothing of this waits. */
export abstract class Views extends Calls {
  protected abstract readonly turns: Turns

  // --- what there is ---

  /** All known conversations, those with the newest messages first. */
  conversations(): readonly Conversation[] {
    return this.turns.read(conversations)
  }

  conversation(conv: string): Conversation | undefined {
    return this.turns.read((core) => conversation(core, conv))
  }

  /** The id of the direct conversation with user; '' before its first message. */
  direct(user: string): string {
    return this.turns.read((core) => direct(core, user))
  }

  /**
   * The held entries of a conversation above `after`, oldest first, at most `limit` (0: all). The only holes among them are entries that the user may
   * not read and those in `Conversation.damaged`. Edits and recalls are applied to their targets and are entries of their own as well.
   */
  messages(conv: string, after = 0, limit = 0): readonly Message[] {
    return this.turns.read((core) => messages(core, conv, after, limit))
  }

  /** The messages to a conversation that are not among its `messages` yet: under way, or refused and not discarded. */
  pending(conv: string): readonly Outgoing[] {
    return this.turns.read((core) => pending(core, conv))
  }

  /** The pending messages to user, also before there is a direct conversation. */
  pendingTo(user: string): readonly Outgoing[] {
    return this.turns.read((core) => pendingTo(core, user))
  }

  /**
   * The quote of the entry seq, which an entry of the conversation answers. 'none': it is not available to this user. 'asked': the client asks the
   * server, and a change names the conversation when the answer is there. Spec: P-5.9.
   */
  quote(conv: string, seq: number): Quoted {
    return this.turns.apply((core) => quote(core, conv, seq))
  }

  /** The counts of unread messages. */
  unread(): Unread {
    return this.turns.read(unreadTotal)
  }

  /** The value of a setting: of a conversation, of another user, or, if both are '', of the account. */
  setting(conv: string, user: string, name: string): string {
    return this.turns.read((core) => setting(core, conv, user, name))
  }

  /** The users that the user blocks, sorted. */
  blocked(): readonly string[] {
    return this.turns.read(blockedUsers)
  }

  /**
   * The newest signals of others, one of each conversation, sender and kind, at most a minute
   * old, the oldest first. Who is typing is not among them: see `Conversation.typing`.
   */
  signals(): readonly Signal[] {
    return this.turns.read(signals)
  }

  /** The presence of a watched user; undefined if it is not known, as without a connection. */
  presence(user: string): Presence | undefined {
    return this.turns.read((core) => presence(core, user))
  }

  // --- what the user does ---

  /**
   * Moves the user's read cursor up to seq, which the person has seen. It shows at once; the
   * server hears of it at most once a second, and after a restart too. Spec: P-8.6.
   */
  markRead(conv: string, seq: number): void {
    this.turns.apply((core) => markRead(core, conv, seq))
  }

  /** Records that this device holds the entries up to seq, with the option manualDelivered. */
  markDelivered(conv: string, seq: number): void {
    this.turns.apply((core) => markDelivered(core, conv, seq))
  }

  /**
   * Names the conversations whose entries are wanted at once; of the others the client
   * learns only that they have moved, and how much is unread. Without an argument it wants
   * all, as at the start. Spec: P-6.5.
   */
  focus(convs?: readonly string[]): void {
    this.turns.apply((core) => setFocus(core, convs))
  }

  /** Shows others that the user is writing. It may be called for each key: it sends at most one signal in 3 s. Spec: P-13.2. */
  typing(conv: string): void {
    this.turns.apply((core) => sayTyping(core, conv))
  }

  /** Names the users whose presence the application wants to know, at most 200, in the place of those of before. Spec: P-13.5. */
  watch(users: readonly string[]): void {
    this.turns.apply((core) => setWatch(core, users))
  }
}
