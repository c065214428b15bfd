// Rules of the client, each broken from outside: the test that guards it has to fail.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { build } from 'esbuild'
import { planted } from './planted.js'
import { clauses } from './vectors.js'

interface Rule {
  readonly file: string // of src
  readonly old: string // stands there once
  readonly new: string
  readonly guard: string // its tests
  readonly by: string // the name of the test that notices
  readonly clause?: string // of sdk/SPEC.md: one that no script can see
}

const rules: readonly Rule[] = [
  ...planted.flatMap(({ test, ...p }) => test ? [{ ...p, guard: test[0], by: test[1] }] : []),
  { file: 'coredriver.ts', old: 'await store.write(w.rows, w.durable)', new: 'void store.write(w.rows, w.durable)', guard: 'test/client.test.ts', by: 'nothing is told, and nothing is sent, before it is stored' },
  { file: 'requestretry.ts', old: '{ requestId: randomId(), ...request }', new: 'request', guard: 'test/client.test.ts', by: 'a call that broke off', clause: 'S-19.2' },
  { file: 'requestretry.ts', old: 'new Slots(maxAsked)', new: 'new Slots(2 * maxAsked)', guard: 'test/client.test.ts', by: 'at most four requests', clause: 'S-19.1' },
  { file: 'subscription.ts', old: 'merge(pending, change)', new: 'pending = change as Gathered', guard: 'test/client.test.ts', by: 'a reader that is slow', clause: 'S-18.2' },
  { file: 'core/snapshot.ts', old: 'view && view.entry === entry && view.note === note ? view : undefined', new: 'undefined', guard: 'test/client.test.ts', by: 'what does not change', clause: 'S-18.3' },
  { file: 'incoming.ts', old: 'yield m\n      await reader.finish(m)', new: 'await reader.finish(m)\n      yield m', guard: 'test/client.test.ts', by: 'has not finished', clause: 'S-18.4' },
  { file: 'errors.ts', old: "typeof e === 'object' && e !== null && brand in e", new: 'e instanceof PetrelError', guard: 'test/client.test.ts', by: 'another copy of the package' },
  { file: 'client.ts', old: 'this.#clock.after(0, () => {', new: '[0].forEach(() => {', guard: 'test/client.test.ts', by: 'who connects again' },
  { file: 'subscription.ts', old: 'for (const one of [...this.#all]) this.#tellOne(one, change)', new: 'for (const one of [...this.#all]) one.f(change)', guard: 'test/client.test.ts', by: 'the error of one listener' },
  { file: 'auth.ts', old: "{ refreshToken: refresh, requestId }", new: '{ refreshToken: refresh }', guard: 'test/client.test.ts', by: 'two tabs that refresh at once', clause: 'S-3.4' },
  { file: 'indexeddb.ts', old: 'if (!again || !isDead(why))', new: 'if (true)', guard: 'src/stores.test.ts', by: 'a dead connection' },
  { file: 'filestores.ts', old: '!== crc32(json)) break', new: '!== crc32(json)) void 0', guard: 'src/stores.test.ts', by: 'a crash has cut off' },
  { file: 'coredriver.ts', old: 'this.#over?.resolve(why)', new: 'if (this.#live || why) this.#over?.resolve(why)', guard: 'test/client.test.ts', by: 'a halt that comes' },
  { file: 'core/window.ts', old: 'takeNotes(c, v, page.notes)\n', new: '', guard: 'test/history.server.test.ts', by: 'what becomes of a message far back' },
  { file: 'core/window.ts', old: 'reapplyEdits(c, v)\n  cut(v, w)\n  show', new: 'cut(v, w)\n  show', guard: 'test/history.server.test.ts', by: 'a page that was read before an edit' },
  { file: 'core/window.ts', old: 'if (w.back) w.slots.length = maxWindow\n', new: 'if (w.back) return\n', guard: 'test/history.server.test.ts', by: 'within its bound' },
  { file: 'core/window.ts', old: 'if (slot.entry.seq <= v.low) w.slots.push(slot)', new: 'void slot', guard: 'test/history.server.test.ts', by: 'what the client drops' },
  { file: 'core/window.ts', old: 'w.slots.splice(find(w.slots, v.low + 1))', new: '', guard: 'test/history.server.test.ts', by: 'a jump reads' },
  { file: 'coredriver.ts', old: 'this.apply((core) => stop(core, failed))', new: '', guard: 'test/client.test.ts', by: 'a store that cannot be opened' },
  { file: 'core/outbox.ts', old: "if (failed[maxFailed]) discard(c, failed[0]?.id ?? '')", new: '', guard: 'test/client.test.ts', by: 'the newest 256' },
  { file: 'requestretry.ts', old: 'timeoutMs < Infinity && ', new: 'timeoutMs === 0 && ', guard: 'test/client.test.ts', by: 'a call without an answer' },
  { file: 'subscription.ts', old: 'stop()\n    return leave(value)', new: 'return leave(value)', guard: 'test/client.test.ts', by: 'who leaves an iterator' },
  { file: 'subscription.ts', old: 'for (const one of this.#all) one.end()', new: '', guard: 'test/client.test.ts', by: 'who leaves an iterator' },
  { file: 'auth.ts', old: 'late.abort(refused(', new: 'void (refused(', guard: 'test/client.test.ts', by: 'a refresh that hangs' },
  { file: 'auth.ts', old: 'unlessAborted(this.#ask(old, signal), signal)', new: 'this.#ask(old, signal)', guard: 'test/client.test.ts', by: 'a login that hangs' },
  { file: 'testing.ts', old: 'if (former) return { message: former }', new: '', guard: 'test/testing.test.ts', by: 'is stored once' },
  { file: 'filestores.ts', old: 'await orWrong(log.truncate(bytes))', new: '', guard: 'src/stores.test.ts', by: 'after a write that failed' },
  { file: 'filestores.ts', old: 'server.listen(address)', new: 'server.listen(address + Math.random())', guard: 'src/stores.test.ts', by: 'a file is open once', clause: 'S-17.4' },
  { file: 'indexeddb.ts', old: 'if (term !== undefined && ', new: 'if (false && ', guard: 'test/tabs.test.ts', by: 'is stored once' },
  { file: 'indexeddb.ts', old: 'async (rows) => rows.clear()', new: 'async () => {}', guard: 'test/tabs.test.ts', by: 'removed at once' },
  { file: 'core/handover.ts', old: 'startsWith(outPrefix)) c.store.rows.delete(key)', new: 'startsWith(outPrefix)) {}', guard: 'src/core/handover.test.ts', by: 'a tab that follows stores nothing' },
  { file: 'core/handover.ts', old: 'if (key.startsWith(convPrefix)) takeCursors(c, value as ConvRow)', new: '', guard: 'test/tabs.test.ts', by: 'who takes over keeps' },
  { file: 'core/handover.ts', old: 'if (c.outbox.sends) takeCursors(c, value as ConvRow)', new: '', guard: 'test/tabs.test.ts', by: 'what a tab reads offline' },
  { file: 'core/conversation.ts', old: 'slotAt(v, seq) ?? (', new: '(', guard: 'src/core/window.test.ts', by: 'what is read in a window' },
  { file: 'core/handover.ts', old: 'if (value) adopt(c, [value as OutgoingRow], tried)', new: 'if (value) {}', guard: 'test/tabs.test.ts', by: 'all tabs show' },
  { file: 'core/handover.ts', old: 'else if (o && isFailed(o)) remove(c, o)', new: '', guard: 'test/tabs.test.ts', by: 'all tabs show' },
  { file: 'tabs/tab.ts', old: "this.#post({ kind: 'settled', messages: all })", new: 'void 0', guard: 'test/tabs.test.ts', by: 'all tabs show' },
  { file: 'core/handover.ts', old: 'o.look ||= o.fresh || r.look', new: '', guard: 'src/core/handover.test.ts', by: 'give a message that may have been sent another after' },
  { file: 'core/sendlane.ts', old: 'if (!c.outbox.sends) return', new: '', guard: 'src/core/handover.test.ts', by: 'has sent and removed' },
  { file: 'tabs/tab.ts', old: 'this.#db.leave()', new: '', guard: 'test/tabs.test.ts', by: 'hears of a logout' },
  { file: 'tabs/hub.ts', old: 'if (this.#members.size > 0) this.#echo(r.from, r.frame, frame)', new: '', guard: 'src/tabs/hub.test.ts', by: 'read back' },
  { file: 'profiles.ts', old: 'if (wish.conv !== \'\' && conv !== \'\' && wish.conv !== conv) continue', new: '', guard: 'test/profiles.test.ts', by: 'of another one', clause: 'S-20.1' },
  { file: 'profiles.ts', old: 'known.profile.version === this.#client.presence(user)?.profile', new: 'false', guard: 'test/profiles.test.ts', by: 'told to be the present one', clause: 'S-20.2' },
  { file: 'profiles.ts', old: 'if (known?.profile.version === version) known.checkedMs', new: 'if ((known?.profile.version ?? \'\') >= version) void this.#clock, known!.checkedMs', guard: 'test/profiles.test.ts', by: 'compared for equality', clause: 'S-20.3' },
  { file: 'profiles.ts', old: 'for (const [user, wish] of wishes) this.#later.set(user, wish)', new: '', guard: 'test/profiles.test.ts', by: 'look-ups are used up', clause: 'S-20.4' },
  { file: 'profiles.ts', old: 'this.#unknown.add(user)', new: '', guard: 'test/profiles.test.ts', by: 'does not exist' },
  { file: 'profiles.ts', old: 'if (history !== \'\' && history !== this.#history) this.#again(wishes)\n      else', new: '', guard: 'test/profiles.test.ts', by: 'another history id', clause: 'S-20.5' },
  { file: 'profiles.ts', old: 'if (this.#known.size > this.#most)', new: 'if (false)', guard: 'test/profiles.test.ts', by: 'go first', clause: 'S-20.6' },
  { file: 'profiles.ts', old: 'if (old && old.profile.version === version && version !== \'\') {', new: 'if (false && old) {', guard: 'test/profiles.test.ts', by: 'a snapshot is frozen' },
  { file: 'contacts.ts', old: '(received ?? sent)?.text', new: '(sent ?? received)?.text', guard: 'test/contacts.test.ts', by: 'what the settings of users say', clause: 'S-21.1' },
  { file: 'core/contacts.ts', old: 'return { live: c.live, seq }', new: 'return { live: c.live, seq: seq + 99 }', guard: 'test/contacts.test.ts', by: 'older than an entry', clause: 'S-21.2' },
  { file: 'core/contacts.ts', old: 'if (!live || c.live !== live) return', new: 'void live', guard: 'test/contacts.test.ts', by: 'of another connection' },
  { file: 'contacts.ts', old: 'if (known && sameList(known.values, values) === known.values) return known.contact', new: 'void known', guard: 'test/contacts.test.ts', by: 'the same object until', clause: 'S-21.3' },
  { file: 'core/mention.ts', old: " && !setting(c, '', v.peer, 'first_messages')", new: '', guard: 'test/contacts.test.ts', by: 'messages of a stranger' },
  { file: 'core/settings.ts', old: "? 'refused' : 'waiting'", new: "? 'waiting' : 'waiting'", guard: 'test/contacts.test.ts', by: 'messages of a stranger', clause: 'S-21.4' },
  { file: 'contacts.ts', old: 'this.#driver.apply((core) => contactAnswered(core, began, user, values))', new: 'void contactAnswered, void began', guard: 'test/contacts.test.ts', by: 'shows at once' },
  { file: 'tabs/hub.ts', old: ".filter(Boolean).at(-1) ?? ''", new: '[0]', guard: 'src/tabs/hub.test.ts', by: 'the watch is that of all' },
  { file: 'tabs/hub.ts', old: 'if (!focus) return { all: true }', new: 'if (!focus) continue', guard: 'src/tabs/hub.test.ts', by: 'the focus is that of all' },
  { file: 'tabs/hub.ts', old: 'from.tab !== tab || frame.cursor)', new: 'from.tab !== tab)', guard: 'src/tabs/hub.test.ts', by: 'a cursor whose tab is gone' },
  { file: 'tabs/hub.ts', old: '|| 16) - open', new: '|| 16)', guard: 'src/tabs/hub.test.ts', by: 'the limits of one session' },
  { file: 'tabs/hub.ts', old: 'if (frame.welcome && this.#open.has(kill) && ', new: 'if (frame.welcome && ', guard: 'src/tabs/hub.test.ts', by: 'over a connection that was given up' },
]

// Some of the tests wait for what does not come, so four at a time take a quarter of the time.
describe('broken rules of the client', { timeout: 300_000, concurrency: 4 }, () => {
  test('each clause that no script can see is broken', () => {
    assert.deepEqual(rules.flatMap((r) => r.clause ?? []).sort(), [...clauses].filter(([, client]) => client).map(([clause]) => clause).sort())
  })

  test('each planted fault is noticed by a vector or a test', () => {
    assert.deepEqual(planted.filter((p) => !p.vector && !p.test).map((p) => p.what), ['a lock that is lost is not noticed']) // the lock itself says so too
  })

  for (const rule of rules) {
    test(`${rule.file}: ${rule.old}`, async () => {
      const { outputFiles } = await build({
        entryPoints: [rule.guard], bundle: true, write: false, format: 'esm', platform: 'node', target: 'node20', ignoreAnnotations: true, packages: 'external', jsx: 'automatic',
        plugins: [{
          name: 'break',
          setup: (b) => b.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path: file }) => {
            if (path.relative('src', file) !== rule.file) return undefined
            const parts = readFileSync(file, 'utf8').split(rule.old)
            assert.equal(parts.length, 2, `${rule.file} has ${parts.length - 1} times: ${rule.old}`)
            return { contents: parts.join(rule.new), loader: 'ts' }
          }),
        }],
      })
      const child = spawn(process.execPath, ['--input-type=module', '--test-name-pattern', rule.by, '--test-force-exit'], {
        stdio: ['pipe', 'pipe', 'inherit'], timeout: 60_000, env: { ...process.env, PETREL_UNTIL_MS: '8000' },
      })
      child.stdin.end(outputFiles[0]?.text ?? '')
      let stdout = ''
      child.stdout.on('data', (b: Buffer) => {
        stdout += b.toString()
      })
      const [status] = await once(child, 'close') as [number | null]
      assert.ok(/^ *not ok /m.test(stdout), `no test failed (${status}):\n${stdout.slice(-2000)}`)
    })
  }
})
