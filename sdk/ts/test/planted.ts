// Faults of the SDK, planted one at a time. A vector notices each of them, or, where no script can see
// it, a test of the client. Long walks should notice it too: `node scripts/planted.mjs [first fault [faults]]`.

/** A fault: `new` stands in the place of `old`, which `file` has once. */
export interface Planted {
  readonly what: string
  readonly file: string // of src
  readonly old: string
  readonly new: string
  /** A vector of sdk/conformance that fails then. */
  readonly vector?: string
  /** Where no script can see it: a file with tests, and part of the name of one that fails then. */
  readonly test?: readonly [file: string, name: string]
}

export const planted: readonly Planted[] = [
  { what: 'a message is sent again with another id after a lost connection', file: 'core/send.ts', old: 'clientFrame(lv.nextId + 1, { send: o.send })', new: 'clientFrame(lv.nextId + 1, { send: o.tried ? { ...o.send, clientMsgId: c.newId() } : o.send })', vector: 'an unanswered message is sent again as it was' },
  { what: 'it is sent again with a newer `after`', file: 'core/send.ts', old: 'clientFrame(lv.nextId + 1, { send: o.send })', new: 'clientFrame(lv.nextId + 1, { send: o.tried && o.send.after !== undefined ? { ...o.send, after: c.convs.get(target(c, o))?.head ?? 0 } : o.send })', vector: 'an unanswered message is sent again as it was' },
  { what: 'the row of a message goes before its ack', file: 'core/send.ts', old: '  lv.sends++\n', new: '  lv.sends++\n  put(c, outgoingKey(o.id), null)\n', vector: 'after a restart everything is there again' },
  { what: 'the row goes with the ack, while the entry is not there yet', file: 'core/outbox.ts', old: "if (state !== 'sent') putOutgoing(c, o, outgoingRow(o).value)", new: "putOutgoing(c, o, state === 'sent' ? null : outgoingRow(o).value)", vector: 'a message that is stored is shown after a restart, also while its entry is not there yet' },
  { what: 'an answer is applied twice', file: 'core/connection.ts', old: '    q.answer(f)\n    return undefined', new: '    q.answer(f)\n    q.answer(f)\n    return undefined', vector: 'a page and its token are one write' },
  { what: 'an entry is shown twice', file: 'core/entries.ts', old: '  v.slots.push({ entry: m, view: undefined })', new: '  v.slots.push({ entry: m, view: undefined }, { entry: m, view: undefined })', vector: 'what comes from an earlier connection is dropped' },
  { what: 'an entry after a gap is taken as the next one', file: 'core/entries.ts', old: 'if (!v.known || m.seq > v.have + 1) {', new: 'if (!v.known) {', vector: 'a gap is closed before what comes after it is shown' },
  { what: 'a gap is not asked for', file: 'core/entries.ts', old: '    hold(v, m)\n    touch(c, v)\n    repair(c, v)', new: '    hold(v, m)\n    touch(c, v)', vector: 'a gap is closed before what comes after it is shown' },
  { what: 'the read cursor goes back', file: 'core/cursor.ts', old: '  if (r.read > v.cursors.read) readTo(c, v, r.read)', new: '  if (r.read !== v.cursors.read) readTo(c, v, r.read)', vector: 'cursors of others and of other devices only move forward' },
  { what: 'a refresh is repeated with another request id', file: 'auth.ts', old: '{ refreshToken: refresh, requestId }', new: '{ refreshToken: refresh, requestId: randomId() + requestId.slice(0, 0) }', test: ['test/client.test.ts', 'two tabs that refresh at once'] },
  { what: 'another history id is ignored', file: 'core/connection.ts', old: 'if (c.meta.history !== w.historyId) {', new: "if (c.meta.history === '') {", vector: 'another history id drops everything but what is to be sent' },
  { what: 'another history id is ignored by a tab that follows', file: 'core/connection.ts', old: 'if (c.meta.history !== w.historyId) {', new: "if (c.meta.history === '' || c.outbox.sends && c.meta.history !== w.historyId) {", test: ['src/core/handover.test.ts', 'drops what it knows'] },
  { what: 'the answer to a cursor is not taken', file: 'core/cursormoves.ts', old: 'if (f.cursor.read > v.cursors.read || q.read > 0 && f.cursor.read === v.cursors.read) readTo(', new: 'if (f.cursor.read > v.cursors.read || q.read > 0 && f.cursor.read === v.cursors.read) void (', vector: 'the answer to a cursor tells how far another device is' },
  { what: 'a frame of a connection that was given up is taken', file: 'core/reconnect.ts', old: 'if (lv && lv.conn === conn) {', new: 'if (lv) {', vector: 'what comes from an earlier connection is dropped' },
  { what: 'a message is sent before its row is durable', file: 'client.ts', old: 'await this.driver.write([row], true)', new: 'void this.driver.write([row], true).catch(() => {})', test: ['test/client.test.ts', 'nothing is told, and nothing is sent, before it is stored'] },
  { what: 'the application is told before the write', file: 'coredriver.ts', old: 'await store.write(w.rows, w.durable)', new: 'this.#tell(w, settled)\n      await store.write(w.rows, w.durable)', test: ['test/client.test.ts', 'what was not stored is not told'] },
  { what: 'what a tab writes whose term is over is taken', file: 'indexeddb.ts', old: 'if (term !== undefined && ', new: 'if (false && ', test: ['src/stores.test.ts', 'a term that is over'] },
  { what: 'a tab that follows sends messages too', file: 'core/connection.ts', old: 'if (c.outbox.sends) sendAll(c, lv)', new: 'sendAll(c, lv)', test: ['test/tabs.test.ts', 'all tabs show'] },
  { what: 'a tab that follows stores the outbox', file: 'core/sendlane.ts', old: '  if (c.outbox.sends) put(c, outgoingKey(o.id), value)', new: '  put(c, outgoingKey(o.id), value)', test: ['src/core/handover.test.ts', 'does not remove the row'] },
  { what: 'the tab that leads does not hear of messages of others', file: 'tabs/tab.ts', old: 'this.#seam.outbox(m.rows, false)', new: 'void 0', test: ['test/tabs.test.ts', 'all tabs show'] },
  { what: 'who takes over does not read what is left', file: 'tabs/tab.ts', old: 'this.#seam.lead(this.#loaded ? left : undefined)', new: 'this.#seam.lead()', test: ['test/tabs.test.ts', 'who takes over keeps'] },
  { what: 'a message whose entry is held is shown as on its way', file: 'core/outbox.ts', old: 'if (v && met) arrived(', new: 'if (v && met) void (', test: ['src/core/handover.test.ts', 'is not shown twice'] },
  { what: 'who takes over gives a message that may have been sent another `after`', file: 'core/handover.ts', old: 'o.look ||= o.fresh || r.look', new: 'void 0', test: ['src/core/handover.test.ts', 'give a message that may have been sent another after'] },
  { what: 'what a tab has stored and told nobody is not looked for', file: 'tabs/tab.ts', old: 'this.#known.add(tab)\n    this.#readOutbox()', new: 'this.#known.add(tab)', test: ['test/tabs.test.ts', 'stored and told nobody'] },
  { what: 'a tab that has sent tells the others nothing', file: 'tabs/tab.ts', old: "if (this.#term > 0) this.#post({ kind: 'settled', messages: all })", new: '', test: ['test/tabs.test.ts', 'all tabs show'] },
  { what: 'a tab that is opened later does not hear what was sent', file: 'tabs/tab.ts', old: "if (m.kind === 'open') this.settled([])", new: 'void 0', test: ['test/tabs.test.ts', 'opened later hears'] },
  { what: 'what one tab has sent is not read back for the others', file: 'tabs/hub.ts', old: 'if (this.#members.size > 0) this.#echo(', new: 'if (this.#members.size > 99) this.#echo(', test: ['src/tabs/hub.test.ts', 'read back'] },
  { what: 'what is pushed reaches only the tab that leads', file: 'tabs/hub.ts', old: "if (!frame.welcome && !frame.pong) this.#post({ kind: 'pushed', frame })", new: '', test: ['src/tabs/hub.test.ts', 'what the server pushes goes to all'] },
  { what: 'a lock that is lost is not noticed', file: 'tabs/tab.ts', old: "if (m.kind === 'leads' && m.term > this.#term) this.#demote()", new: '' },
  { what: 'a frozen tab keeps the lead', file: 'tabs/tab.ts', old: '&& this.#loaded) this.#steal()', new: '&& false) this.#steal()', test: ['test/tabs.test.ts', 'is stored once'] },
  { what: 'a logout leaves the data', file: 'indexeddb.ts', old: 'const request = this.#factory.deleteDatabase(this.name)', new: 'const request = this.#factory.open(this.name)', test: ['src/stores.test.ts', 'that another tab removes'] },
  { what: 'a logout ends one tab only', file: 'tabs/tab.ts', old: "this.#post({ kind: 'wiped' })", new: 'void 0', test: ['test/tabs.test.ts', 'hears of a logout'] },
]
