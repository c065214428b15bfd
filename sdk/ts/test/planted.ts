// Faults of the SDK, planted one at a time: walks have to notice each of them.
// `node scripts/planted.mjs [first fault [faults]]`

/** A fault: `new` stands in the place of `old`, which `file` has once. */
export interface Planted {
  readonly what: string
  readonly file: string // of src
  readonly old: string
  readonly new: string
}

export const planted: readonly Planted[] = [
  { what: 'a message is sent again with another id after a lost connection', file: 'core/outbox.ts', old: 'clientFrame(lv.nextId + 1, { send: o.send })', new: 'clientFrame(lv.nextId + 1, { send: o.tried ? { ...o.send, clientMsgId: c.newId() } : o.send })' },
  { what: 'it is sent again with a newer `after`', file: 'core/outbox.ts', old: 'clientFrame(lv.nextId + 1, { send: o.send })', new: 'clientFrame(lv.nextId + 1, { send: o.tried && o.send.after !== undefined ? { ...o.send, after: c.convs.get(target(c, o))?.head ?? 0 } : o.send })' },
  { what: 'the row of a message goes before its ack', file: 'core/outbox.ts', old: '  lv.sends++\n', new: '  lv.sends++\n  put(c, outgoingKey(o.id), null)\n' },
  { what: 'the row goes with the ack, while the entry is not there yet', file: 'core/answer.ts', old: "if (state !== 'sent') putOutgoing(c, o, outgoingRow(o).value)", new: "putOutgoing(c, o, state === 'sent' ? null : outgoingRow(o).value)" },
  { what: 'an answer is applied twice', file: 'core/live.ts', old: '    q.answer(f)\n    return undefined', new: '    q.answer(f)\n    q.answer(f)\n    return undefined' },
  { what: 'an entry is shown twice', file: 'core/conversation.ts', old: '  v.slots.push({ entry: m, view: undefined })', new: '  v.slots.push({ entry: m, view: undefined }, { entry: m, view: undefined })' },
  { what: 'an entry after a gap is taken as the next one', file: 'core/conversation.ts', old: 'if (!v.known || m.seq > v.have + 1) {', new: 'if (!v.known) {' },
  { what: 'a gap is not asked for', file: 'core/conversation.ts', old: '    hold(v, m)\n    touch(c, v)\n    repair(c, v)', new: '    hold(v, m)\n    touch(c, v)' },
  { what: 'the read cursor goes back', file: 'core/cursor.ts', old: '  if (r.read > v.read) readTo(c, v, r.read)', new: '  if (r.read !== v.read) readTo(c, v, r.read)' },
  { what: 'a refresh is repeated with another request id', file: 'auth.ts', old: '{ refreshToken: refresh, requestId }', new: '{ refreshToken: refresh, requestId: randomId() + requestId.slice(0, 0) }' },
  { what: 'another history id is ignored', file: 'core/live.ts', old: 'if (c.meta.history !== w.historyId) {', new: "if (c.meta.history === '') {" },
  { what: 'another history id is ignored by a tab that follows', file: 'core/live.ts', old: 'if (c.meta.history !== w.historyId) {', new: "if (c.meta.history === '' || c.sends && c.meta.history !== w.historyId) {" },
  { what: 'the answer to a cursor is not taken', file: 'core/cursor.ts', old: 'if (f.cursor.read > v.read || q.read > 0 && f.cursor.read === v.read) readTo(', new: 'if (f.cursor.read > v.read || q.read > 0 && f.cursor.read === v.read) void (' },
  { what: 'a frame of a connection that was given up is taken', file: 'core/reach.ts', old: 'if (lv && lv.conn === conn) {', new: 'if (lv) {' },
  { what: 'a message is sent before its row is durable', file: 'client.ts', old: 'await this.turns.write([row], true)', new: 'void this.turns.write([row], true).catch(() => {})' },
  { what: 'the application is told before the write', file: 'turns.ts', old: 'await store.write(w.rows, w.durable)', new: 'this.#tell(w, settled)\n      await store.write(w.rows, w.durable)' },
  { what: 'what a tab writes whose term is over is taken', file: 'indexeddb.ts', old: 'if (term !== undefined && ', new: 'if (false && ' },
  { what: 'a tab that follows sends messages too', file: 'core/live.ts', old: 'if (c.sends) sendAll(c, lv)', new: 'sendAll(c, lv)' },
  { what: 'a tab that follows stores the outbox', file: 'core/rows.ts', old: '  if (c.sends) put(c, outgoingKey(o.id), value)', new: '  put(c, outgoingKey(o.id), value)' },
  { what: 'the tab that leads does not hear of messages of others', file: 'tabs/tab.ts', old: 'this.#seam.outbox(m.rows, false)', new: 'void 0' },
  { what: 'who takes over does not read what is left', file: 'tabs/tab.ts', old: 'this.#seam.lead(this.#loaded ? left : undefined)', new: 'this.#seam.lead()' },
  { what: 'a message whose entry is held is shown as on its way', file: 'core/rows.ts', old: 'if (v && met) arrived(', new: 'if (v && met) void (' },
  { what: 'who takes over gives a message that may have been sent another `after`', file: 'core/rows.ts', old: 'o.look ||= o.fresh || r.look', new: 'void 0' },
  { what: 'what a tab has stored and told nobody is not looked for', file: 'tabs/tab.ts', old: 'this.#known.add(tab)\n    this.#readOutbox()', new: 'this.#known.add(tab)' },
  { what: 'a tab that has sent tells the others nothing', file: 'tabs/tab.ts', old: "if (this.#term > 0) this.#post({ kind: 'settled', messages: all })", new: '' },
  { what: 'a tab that is opened later does not hear what was sent', file: 'tabs/tab.ts', old: "if (m.kind === 'open') this.settled([])", new: 'void 0' },
  { what: 'what one tab has sent is not read back for the others', file: 'tabs/hub.ts', old: 'if (this.#members.size > 0) this.#echo(', new: 'if (this.#members.size > 99) this.#echo(' },
  { what: 'what is pushed reaches only the tab that leads', file: 'tabs/hub.ts', old: "if (!frame.welcome && !frame.pong) this.#post({ kind: 'pushed', frame })", new: '' },
  { what: 'a lock that is lost is not noticed', file: 'tabs/tab.ts', old: "if (m.kind === 'leads' && m.term > this.#term) this.#demote()", new: '' },
  { what: 'a frozen tab keeps the lead', file: 'tabs/tab.ts', old: '&& this.#loaded) this.#steal()', new: '&& false) this.#steal()' },
  { what: 'a logout leaves the data', file: 'indexeddb.ts', old: 'const request = this.#factory.deleteDatabase(this.name)', new: 'const request = this.#factory.open(this.name)' },
  { what: 'a logout ends one tab only', file: 'tabs/tab.ts', old: "this.#post({ kind: 'wiped' })", new: 'void 0' },
]
