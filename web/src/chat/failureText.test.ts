import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type Client, PetrelError } from '@petrel-im/sdk'
import type { Translation } from '../i18n/index.js'
import { contactReasons } from '../contacts/contactFailure.js'
import { reasons, soon, thrownText } from './failureText.js'

/**
 * The codes that end a connection, and those for operators and developers only: the page has views of its own for
 * them, or never sees them.
 */
const others = [
  'unknown_codec', 'bad_frame', 'bad_utf8', 'unmasked', 'version_unsupported', 'unauthenticated', 'token_in_url', 'hello_expected', 'hello_timeout', 'too_many_connections',
  'window_exceeded', 'slow_consumer', 'dead_link', 'revoked', 'replaced', 'behind', 'after_ahead', 'bad_token', 'refresh_reused', 'no_key', 'no_operator', 'operator_exists', 'no_node', 'no_report', 'report_closed', 'account_leaving', 'not_now', 'no_method', 'setup_closed',
]

const t: Translation['t'] = (key, values) => `${key} ${JSON.stringify(values ?? {})}`

test('each code of the catalogue has a text, or is not about what a person does', () => {
  const catalogue = [...readFileSync('../proto/errors.yaml', 'utf8').matchAll(/^ {2}- \{code: (\w+),/gm)].map(([, code]) => code)
  assert.ok(catalogue.length > 40, `${catalogue.length} codes`)
  assert.deepEqual([...new Set([...Object.keys(reasons), ...Object.keys(contactReasons), ...others])].sort(), catalogue.sort())
})

test('the English text of the server is shown to nobody', () => {
  const thrown = (code: string): string => thrownText(new PetrelError({ kind: 'refused', code, message: 'there is no such thing', hint: '', settled: true, retryable: false, retryAfterMs: 0, requestId: '', head: 0 }), t)
  assert.equal(thrown('too_late'), 'errorTooLate {}')
  assert.equal(thrown('of_a_newer_server'), 'errorOther {"code":"of_a_newer_server"}')
  assert.equal(thrown('constructor'), 'errorOther {"code":"constructor"}')
})

test('a call is given up soon without a connection, and not with one', () => {
  const at = (state: string): Client => ({ status: () => ({ state }) }) as unknown as Client
  assert.deepEqual(soon(at('live')), {})
  for (const state of ['offline', 'connecting']) assert.ok((soon(at(state)).timeoutMs ?? Infinity) <= 5000, state)
})
