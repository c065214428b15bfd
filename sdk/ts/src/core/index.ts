// The exports of the core for the client around it.
export { setFocus } from './focus.js'
export type { Change, Gathered } from './change.js'
export { isEmpty, merge, noChange, sameFields } from './change.js'
export type { ClientFrameJson, Encoded } from './codec.js'
export { encodeJson } from './codec.js'
export type { Written } from './core.js'
export { newCore, open, prepare, step, stored, storeFailed, takeOutputs } from './core.js'
export { markDelivered, markRead, takeReceipt } from './cursor.js'
export { decode, wireError } from './decode.js'
export type { Failure } from './errors.js'
export { during, failure, fromWire, invalid, refusal, silent, unknowable } from './errors.js'
export type {
  Answer, ClientBody, ConvKind, Edit, Entry, Events, Forwarded, GetHistory, GroupChange, HistoryPage, MemberChange, MemberRef, Note, Quote, Range, Reaction, Recall, Receipt, Ref,
  Relations, Role, SendSignal, ServerFrame, Signal,
} from './frames.js'
export { newestPage } from './frames.js'
export type { Capability } from './request.js'
export { call } from './request.js'
export { sayTyping, setWatch } from './signals.js'
export { mentionsUser } from './mention.js'
export type {
  Conversation, Draft, EditDraft, Message, Outgoing, Personal, Presence, SendState, State, Status, Unread,
} from './model.js'
export { notesCame } from './note.js'
export { olderThan, takeOlder } from './olderpages.js'
export type { Drafted } from './outbox.js'
export { discard, draft, kept, lost, settledElsewhere } from './outbox.js'
export { setting } from './settings.js'
export type { Reading } from './incomingposition.js'
export { beginIncoming, heldAfter, moveTo, reading } from './incomingposition.js'
export { heard, moved } from './heartbeat.js'
export type { Quoted } from './quote.js'
export { quote } from './quote.js'
export { closed, frame, opened, protocol, start, stop, tokenCame, wakeUp } from './reconnect.js'
export type { ConvRow, Meta, OutgoingRow, Position, Row, RowValue, StoredRow } from './schema.js'
export {
  blockedUsers, conversation, conversations, direct, isLive, messageOf, messages, needsNewerVersion, outgoing, pending, pendingTo, presence, signals, since, status,
  unreadTotal,
} from './snapshot.js'
export type { Core, CoreOptions, Live, Outputs } from './state.js'
export { follow, lead, mirror } from './handover.js'
