// Rules of the web chat, each broken from outside: the test that guards it has to fail.
// Those that only a browser sees take minutes: `npm run broken`, which is a part of `make long`, or
// `PETREL_BROKEN_PAGES=group node scripts/test.mjs broken` for those that test/group.test.ts guards.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { build, type BuildOptions, type Plugin } from 'esbuild'
import { emojiModule, emojiPrefix } from '../emojiModule.js'

interface Rule {
  readonly file: string // from the folder web
  readonly old: string // stands there once
  readonly new: string
  readonly guard: string // its tests
  readonly by: string // the name of the test that notices
}

const rules: readonly Rule[] = [
  { file: 'src/chat/timelineRows.ts', old: 'Math.max(newest, lines.length > 0 ? newest : o.composedMs)', new: 'o.composedMs', guard: 'src/chat/timelineRows.test.ts', by: 'what waits comes last' },
  { file: 'src/chat/timelineRows.ts', old: 'return m.from === me && m.clientMsgId ? ownKey(m.clientMsgId) : String(m.seq)', new: 'return me && String(m.seq)', guard: 'src/chat/timelineRows.test.ts', by: 'keeps its key' },
  { file: 'src/chat/timelineRows.ts', old: '!m.edit && !m.recall && ', new: '', guard: 'src/chat/timelineRows.test.ts', by: 'edits and recalls have no row' },
  { file: 'src/chat/timelineRows.ts', old: ' && b.ms - a.ms <= groupMs', new: '', guard: 'src/chat/timelineRows.test.ts', by: 'until another one writes or ten minutes pass' },
  { file: 'src/chat/drawnSpan.ts', old: 'const last = at + mostRows', new: 'const last = all.length', guard: 'src/chat/timelineRows.test.ts', by: 'never grows beyond its bound' },
  { file: 'src/chat/links.ts', old: " && r.has('http', i)", new: '', guard: 'src/chat/markup.test.ts', by: 'no other scheme is one' },
  { file: 'src/chat/links.ts', old: 'if (local.end <= i)', new: 'if (i >= 0)', guard: 'src/chat/parsing.test.ts', by: 'a message of one sign' },
  { file: 'src/chat/markup.ts', old: 'Math.max(next[m.kind], i + m.length + 1)', new: 'i + m.length + 1', guard: 'src/chat/parsing.test.ts', by: 'marks that never close' },
  { file: 'src/chat/markup.ts', old: 'this.#mentions.has(user) || ', new: 'true || ', guard: 'src/chat/markup.test.ts', by: 'only users whom the message mentions' },
  { file: 'src/embed/router.ts', old: 'same || this.#opens(next)', new: 'true', guard: 'src/embed/router.test.ts', by: 'if the page lets it' },
  { file: 'elementStyles.ts', old: 'calc($1 * var(--rem))', new: '$1rem', guard: 'test/elementStyles.test.ts', by: 'goes by the page around it' },
  { file: 'src/account/presenceWatch.ts', old: '[...first, ...views]', new: '[...views]', guard: 'src/account/presenceWatch.test.ts', by: 'come before those of the list' },
  { file: 'src/account/presenceWatch.ts', old: 'if (list === told) return', new: '', guard: 'src/account/presenceWatch.test.ts', by: 'only for another list' },
  { file: 'src/settings/profileDraft.ts', old: '[...text].length > mostAbout', new: 'text.length > mostAbout', guard: 'src/settings/profileDraft.test.ts', by: 'before the server is asked' },
  { file: 'src/longPress.ts', old: '> slack) end()', new: '> Infinity) end()', guard: 'src/longPress.test.ts', by: 'opens none when it moves' },
  { file: 'src/chat/failureText.ts', old: "too_late: 'errorTooLate', ", new: '', guard: 'src/chat/failureText.test.ts', by: 'each code of the catalogue' },
  { file: 'src/chat/failureText.ts', old: "t('errorOther', { code })", new: 'code', guard: 'src/chat/failureText.test.ts', by: 'the English text of the server' },
  { file: 'src/i18n/fillText.ts', old: 'isChinese(before + value.charAt(0)) ? \'\' : blank', new: 'blank', guard: 'src/i18n/i18n.test.ts', by: 'a value has a blank beside it' },
  { file: 'src/route.ts', old: 'parts.map(encodeURIComponent)', new: 'parts', guard: 'src/route.test.ts', by: 'addresses are read as they are written' },
]

/** Rules that only a browser sees broken. */
const seen: readonly Rule[] = [
  { file: 'src/chat/ChatView.tsx', old: 'conv={id || conv}', new: 'conv={id}', guard: 'test/group.test.ts', by: 'of which this browser has not heard yet' },
  { file: 'src/account/useName.ts', old: ': watch([user], open)', new: ': undefined', guard: 'test/profile.test.ts', by: 'in an open group' },
  { file: 'src/account/findUser.ts', old: 'if (/^[a-z0-9_.]{3,32}$/.test(small))', new: 'if (false)', guard: 'test/profile.test.ts', by: 'found by the exact handle' },
  { file: 'src/chat/Body.tsx', old: 'grow()', new: '', guard: 'test/long.test.ts', by: 'a long message is folded' },
  { file: 'src/chat/Composer.tsx', old: " || length.over > 0) return", new: ') return', guard: 'test/long.test.ts', by: 'characters are counted' },
  { file: 'ui/composing.ts', old: 'return key.isComposing || key.keyCode === 229', new: 'return false', guard: 'test/input.test.ts', by: 'in the composer' },
  { file: 'src/chat/ChatView.tsx', old: ' && !isComposing(e)', new: '', guard: 'test/input.test.ts', by: 'in the composer' },
  { file: 'src/sidebar/Sidebar.tsx', old: 'if (isComposing(e)) return', new: '', guard: 'test/input.test.ts', by: 'in the search and in every dialog' },
  { file: 'src/chat/Timeline.tsx', old: 'client.markRead(v.id, upTo)', new: 'void upTo', guard: 'test/chat.test.ts', by: 'two people sign up' },
  { file: 'src/drafts.ts', old: 'keep(nameOf(account, chat), text)', new: 'void text', guard: 'test/chat.test.ts', by: 'a reload in the middle of a send' },
  { file: 'src/chat/Scroller.ts', old: 'this.#view.scrollTop = this.#at + moved', new: 'void moved', guard: 'test/chat.test.ts', by: 'what is in view stands still' },
  { file: 'src/account/session.ts', old: '  forgetAccount(s.user)\n', new: '', guard: 'test/account.test.ts', by: 'a logout wipes' },
  { file: 'src/clientSnapshot.ts', old: 'client.subscribe(() => void client.unsent().then(setUnsent, () => {}))', new: 'void client.unsent().then(setUnsent, () => {})', guard: 'test/account.test.ts', by: 'a logout wipes' },
  { file: 'src/account/session.ts', old: 'if (await s.client.unsent() === 0) await this.#wipe(s)', new: 'await s.client.unsent()', guard: 'test/account.test.ts', by: 'who logs in on another device' },
  { file: 'src/settings/SettingsView.tsx', old: 'newPassword: next', new: 'newPassword: `${next} `', guard: 'test/account.test.ts', by: 'with a new password' },
  { file: 'ui/ids.ts', old: "Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')", new: 'crypto.randomUUID()', guard: 'test/account.test.ts', by: 'without TLS' },
  { file: 'src/account/session.ts', old: 'storage = memoryTokens()', new: '', guard: 'test/account.test.ts', by: 'without a database' },
  { file: 'src/account/session.ts', old: 'this.#unstored.add(s.user)', new: '', guard: 'test/account.test.ts', by: 'whose storage is full' },
  { file: '../sdk/ts/src/tabs/tab.ts', old: 'this.#seam.lead(this.#loaded ? left : undefined)', new: '', guard: 'test/tabs.test.ts', by: 'the one that leads is closed' },
  { file: '../sdk/ts/src/tabs/tab.ts', old: 'this.#unanswered++ >= stealAfter', new: 'false', guard: 'test/tabs.test.ts', by: 'is frozen' },
  { file: '../sdk/ts/src/tabs/tab.ts', old: 'if (!this.#running || this.#closed.signal.aborted) return\n    const held', new: 'if (this.#loaded) return\n    const held', guard: 'test/tabs.test.ts', by: 'crashes' },
  { file: 'src/chat/timelineRows.ts', old: 'Math.max(newest, lines.length > 0 ? newest : o.composedMs)', new: 'o.composedMs', guard: 'test/offline.test.ts', by: 'wrong by -30 hours' },
  { file: 'src/useLasting.ts', old: 'setLong(true)', new: 'setLong(false)', guard: 'test/offline.test.ts', by: 'one calm line' },
  { file: '../sdk/ts/src/core/sync.ts', old: 'c.convs.clear()\n', new: '', guard: 'test/offline.test.ts', by: 'a store that is put back' },
  { file: 'src/chat/Timeline.tsx', old: "newest && newest.seq > begun.current", new: 'newest', guard: 'test/everybody.test.ts', by: 'announced once' },
  { file: 'src/chat/rovingFocus.ts', old: "before.tabIndex = -1", new: 'before.tabIndex = 0', guard: 'test/everybody.test.ts', by: 'arrows go' },
  { file: 'src/main.tsx', old: 'subscribePreferences(applyTheme)', new: 'void applyTheme', guard: 'test/everybody.test.ts', by: 'the theme' },
  { file: 'src/chat/Body.tsx', old: 'rel="noopener noreferrer nofollow"', new: 'rel="opener"', guard: 'test/chat.test.ts', by: 'what others write is text' },
  { file: 'src/chat/ChatView.tsx', old: "field.insert(o.draft.text ?? '')", new: '', guard: 'test/chat.test.ts', by: 'the field grows' },
  { file: 'src/chat/WhoDialog.tsx', old: 'client.whoReacted(v.id, m.seq).then(setReacted', new: 'client.whoReacted(v.id, m.seq).then(() => {}', guard: 'test/list.test.ts', by: 'reaction, pin' },
  { file: 'src/main.tsx', old: "if (isOurs) location.hash = data.address", new: '', guard: 'test/notify.test.ts', by: 'title and icon' },
  { file: 'src/App.tsx', old: "if (state === 'live') lookForUpdate()", new: 'Promise.resolve()', guard: 'test/offline.test.ts', by: 'a newer one' },
  { file: 'src/info/GroupInfo.tsx', old: 'client.transferOwnership(v.id, menu.member.user)', new: "client.setRole(v.id, menu.member.user, 'admin')", guard: 'test/group.test.ts', by: 'an admin is made' },
  { file: 'src/chat/failureText.ts', old: "not_member: 'errorNotMember', ", new: '', guard: 'test/group.test.ts', by: 'who is removed' },
  { file: 'src/chat/MessageBubble.tsx', old: "onClick={() => actions.again(o)}", new: 'onClick={() => actions.discard(o)}', guard: 'test/group.test.ts', by: 'nobody can tell' },
  { file: 'src/chat/useMembers.ts', old: 'reads.set(key, read)', new: '', guard: 'test/group.test.ts', by: 'of a large group' },
  { file: 'src/chat/useMembers.ts', old: "all: named.has('all')", new: 'all: false', guard: 'test/group.test.ts', by: 'mentions: of one' },
  { file: 'src/sidebar/ChatRow.tsx', old: 'client.archive(v.id, !archived)', new: 'Promise.resolve()', guard: 'test/list.test.ts', by: 'pinned, muted' },
  { file: 'src/chat/Reactions.tsx', old: 'onClick={() => react(m, emoji, mine)}', new: 'onClick={() => react(m, emoji, false)}', guard: 'test/list.test.ts', by: 'reaction, pin' },
  { file: 'src/info/InfoPanel.tsx', old: 'client.block(user, !blocked)', new: 'Promise.resolve()', guard: 'test/list.test.ts', by: 'a message is forwarded' },
  { file: 'src/settings/SettingsView.tsx', old: 'prefer({ language: value })', new: 'void value', guard: 'test/list.test.ts', by: 'the language is switched' },
  { file: 'src/notifications.ts', old: "if (!('locks' in navigator)) return f()", new: 'return f()', guard: 'test/notify.test.ts', by: 'title and icon' },
  { file: 'src/notifications.ts', old: ' || v.personal.archived) return false', new: ') return false', guard: 'test/notify.test.ts', by: 'who has asked for none' },
  { file: 'ui/controls.tsx', old: ' aria-label={label} title={label} {...more} className={`icon-button', new: ' {...more} className={`icon-button', guard: 'test/axe.test.ts', by: 'light' },
  { file: 'src/chat/ChatHeader.tsx', old: '<h1 className="cut" dir="auto">', new: '<h1 style={{ width: \'max-content\' }}>', guard: 'test/axe.test.ts', by: 'dark' },
  { file: 'src/chat/ChatView.tsx', old: '<Composer chat=', new: '<Composer key={id} chat=', guard: 'test/input.test.ts', by: 'while all else changes' },
  { file: 'src/chat/Completion.tsx', old: '(?<![A-Za-z0-9_@.:：/])', new: '(?<=^|\\s)', guard: 'test/input.test.ts', by: 'without a blank' },
  { file: 'src/connection.tsx', old: 'useLasting(lost, silentMs)', new: 'useLasting(lost && state !== \'offline\', silentMs)', guard: 'test/looks.test.ts', by: 'a line says that there is no connection' },
  { file: 'ui/Dialog.tsx', old: 'writableOnPhone)?.focus()', new: 'writableOnPhone)', guard: 'test/looks.test.ts', by: 'a dialog begins in its first field' },
  { file: 'src/account/findUser.ts', old: 'if (small !== typed) ', new: 'if (false) ', guard: 'test/looks.test.ts', by: 'a user name is in small letters' },
  { file: 'src/chat/Scroller.ts', old: 'this.#view.scrollTop = this.#at + moved', new: 'void moved', guard: 'test/timeline.test.ts', by: 'no row jumps' },
  { file: 'src/chat/useSpan.ts', old: 'load(() => window.newer())', new: 'void window', guard: 'test/timeline.test.ts', by: 'a jump to a date far back' },
  { file: 'src/chat/scrollPositions.ts', old: '${place.seq} ${Math.round(place.belowPx)}', new: '', guard: 'test/timeline.test.ts', by: 'the place where somebody reads' },
  { file: 'src/chat/useSpan.ts', old: 'const has = await window.around(seq, undefined, within())', new: 'const has = true', guard: 'test/timeline.test.ts', by: 'a quote far back' },
]

/** A rule that breaks nothing, so all tests pass: the other failures do not come from the way the pages are built. */
const whole: Pick<Rule, 'file' | 'old' | 'new'> = { file: 'ui/composing.ts', old: 'return key.isComposing || key.keyCode === 229', new: 'return key.keyCode === 229 || key.isComposing' }

function breaking(rule: Pick<Rule, 'file' | 'old' | 'new'>): Plugin {
  return {
    name: 'break',
    setup: (b) => {
      let met = false
      b.onLoad({ filter: /\.tsx?$/ }, ({ path: file }) => {
        if (path.relative('.', file) !== rule.file) return undefined
        met = true
        const parts = readFileSync(file, 'utf8').split(rule.old)
        assert.equal(parts.length, 2, `${rule.file} has ${parts.length - 1} times: ${rule.old}`)
        return { contents: parts.join(rule.new), loader: file.endsWith('x') ? 'tsx' : 'ts' }
      })
      b.onEnd(() => assert.ok(met, `${rule.file} is no part of what is built`))
    },
  }
}

const options: BuildOptions = { bundle: true, write: false, format: 'esm', conditions: ['petrel-source'], jsx: 'automatic', ignoreAnnotations: true, loader: { '.css': 'empty' }, logLevel: 'silent' }

async function run(passes: boolean, input: string, by: string, env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(process.execPath, ['--input-type=module', '--test-name-pattern', by, '--test-force-exit'], { stdio: ['pipe', 'pipe', 'ignore'], timeout: 300_000, env: { ...process.env, ...env } })
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    stdout += part
  })
  child.stdin.on('error', () => {}).end(input) // a process that ended early has another status
  const [status] = await once(child, 'close') as [number | null]
  assert.equal(!/^ *not ok /m.test(stdout) && status === 0, passes, `status ${status}:\n${stdout.slice(-2000)}`)
}

const wanted = process.env['PETREL_BROKEN_PAGES'] // 'all', or a part of the names of some guards

describe('broken rules', { timeout: 3_600_000, concurrency: wanted ? 1 : 2 }, () => { // tests in a browser have the machine to themselves
  for (const rule of rules) {
    test(`${rule.file}: ${rule.old}`, async () => {
      const { outputFiles } = await build({ ...options, entryPoints: [rule.guard], platform: 'node', target: 'node20', plugins: [breaking(rule)] })
      await run(false, outputFiles?.[0]?.text ?? '', rule.by, {})
    })
  }
  const guards = [...new Set(seen.map((r) => r.guard))]
  const pages = [...guards.map((g) => ({ ...whole, guard: g, by: '' })), ...seen].filter(({ guard }) => wanted === 'all' || wanted && guard.includes(wanted))
  for (const { file, old, new: now, guard, by } of pages) {
    test(`${file}: ${old}: ${guard}`, async () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'petrel-broken-'))
      const page = await build({ ...options, entryPoints: ['src/main.tsx'], platform: 'browser', target: 'es2022', define: { 'process.env.NODE_ENV': '"production"' }, plugins: [breaking({ file, old, new: now }), oneReact, emojis(guard)] })
      const tests = await build({ ...options, entryPoints: [guard], platform: 'node', target: 'node20', external: ['playwright-core', 'axe-core'] })
      writeFileSync(path.join(folder, 'page.js'), page.outputFiles?.[0]?.contents ?? '')
      await run(by === '', tests.outputFiles?.[0]?.text ?? '', by, { PETREL_BROKEN_PAGE: path.join(folder, 'page.js') })
      rmSync(folder, { recursive: true })
    })
  }
})

/** The React of this package, also for the SDK. */
const oneReact: Plugin = { name: 'react', setup: (b) => b.onResolve({ filter: /^react(-dom)?(\/|$)/ }, ({ path: name, pluginData }) => pluginData === 'again' ? undefined : b.resolve(name, { resolveDir: process.cwd(), kind: 'import-statement', pluginData: 'again' })) }

/** All emojis; none for tests in which the server has them no more. */
function emojis(guard: string): Plugin {
  return {
    name: 'emojis',
    setup: (b) => {
      b.onResolve({ filter: /^virtual:/ }, ({ path: name }) => ({ path: name, ...(guard === 'test/offline.test.ts' ? { external: true } : { namespace: 'emojis' }) }))
      b.onLoad({ filter: /./, namespace: 'emojis' }, ({ path: name }) => ({ contents: emojiModule('.', name.slice(emojiPrefix.length)) }))
    },
  }
}
