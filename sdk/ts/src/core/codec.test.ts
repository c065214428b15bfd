import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fromBase64, toBase64 } from './base64.js'
import { clientFrame, encodeJson, utf8Length } from './codec.js'
import { decode } from './decode.js'
import { newestPage } from './frames.js'

const history = (head: unknown): unknown => ({ id: '3', history: { conv: 'g1', head } })

describe('the edge to the wire', () => {
  test('a number of 53 bits is taken, and a larger one is refused', () => {
    const f = decode(history('9007199254740991'))
    assert.equal(f.kind === 'history' && f.history.head, 9007199254740991)
    for (const head of ['9007199254740992', '-1', '1.5', 'x', '', {}, [], true]) assert.throws(() => decode(history(head)), /, not a number/, String(head))
    for (const after of [9007199254740992, -1, 1.5, NaN]) assert.throws(() => clientFrame(3, { history: { conv: 'g1', after } }), /has to be a whole number/)
  })

  test('the newest page has a number that no number can hold', () => {
    assert.deepEqual(clientFrame(3, { history: { conv: 'g1', before: newestPage } }), { id: '3', history: { conv: 'g1', before: '18446744073709551615' } })
  })

  test('what is not as the schema says is refused', () => {
    for (const bad of [null, 'x', [], 7, { events: [] }, { events: { messages: {} } }, { events: { messages: [{ text: 7 }] } }, { events: { messages: [{ data: '***' }] } }, { kick: { reconnect: 'yes' } }]) {
      assert.throws(() => decode(bad), Error, JSON.stringify(bad))
    }
  })

  test('unknown enums and keys are left out', () => {
    const f = decode({ sync: { convs: [{ conv: 'x', kind: 'CONV_KIND_NEW', role: 'ROLE_NEW', novelty: 1 }] } })
    assert.deepEqual(f.kind === 'sync' && [f.sync.convs[0]?.kind, f.sync.convs[0]?.role], ['', ''])
  })

  test('the golden frames of a server are read', () => {
    const folder = '../../proto/vectors'
    const files = readdirSync(folder).filter((file) => /-server-.*\.json$/.test(file))
    assert.ok(files.length > 10)
    for (const file of files) assert.doesNotThrow(() => decode(JSON.parse(readFileSync(`${folder}/${file}`, 'utf8'))), file)
  })

  test('base64 is that of everybody else, and so is the length in UTF-8', () => {
    for (let n = 0; n < 300; n++) {
      const bytes = Uint8Array.from({ length: n }, (_, i) => (i * 167 + n) & 255)
      assert.equal(toBase64(bytes), Buffer.from(bytes).toString('base64'))
      assert.deepEqual(fromBase64(toBase64(bytes)), bytes)
    }
    for (const text of ['', 'plain', 'grün', '海燕', '🐦 and 🐧', '\u0000\u007f\u0080\u07ff\u0800\uffff']) assert.equal(utf8Length(text), Buffer.byteLength(text), text)
    assert.equal(encodeJson({ ping: {} }).bytes, 11)
  })
})
