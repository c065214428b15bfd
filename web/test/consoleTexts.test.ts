import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { en } from '../console/i18n/en.js'
import { zh } from '../console/i18n/zh.js'
import { detailsOf, textOf } from '../console/incidents.js'
import { translationOf } from '../src/i18n/translation.js'

type Text = string | { readonly one?: string; readonly other: string }
const texts = (t: Text): string[] => typeof t === 'string' ? [t] : [...t.one === undefined ? [] : [t.one], t.other]
const holes = (text: string): string => [...text.matchAll(/\{\w+\}/g)].map(([h]) => h).sort().join()
const keys = Object.keys(en) as (keyof typeof en)[]

test('both languages of the console have all texts, with the same values in them', () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort())
  for (const key of keys) {
    const wanted = holes(texts(en[key]).at(-1) ?? '')
    for (const text of [...texts(en[key]), ...texts(zh[key])]) {
      assert.ok(text.trim() !== '', key)
      assert.equal(holes(text), wanted, `${key}: ${text}`)
    }
  }
})

test('every text of the console is shown somewhere', () => {
  const source = readdirSync('console', { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f) && !/i18n|wire/.test(f)).map((f) => readFileSync(`console/${f}`, 'utf8')).join('\n')
  const groups = new Set([...source.matchAll(/named\(tr, '(\w+)'|t\(`(\w+)_\$\{/g)].map((m) => m[1] ?? m[2]))
  assert.deepEqual(keys.filter((key) => !source.includes(`'${key}'`) && !groups.has(key.split('_')[0] ?? '')), [])
})

test('each incident has a text and what to do, in the guide as well', () => {
  const guide = readFileSync('../docs/guide/console.md', 'utf8')
  const codes = [...guide.matchAll(/<a id="(\w+)"><\/a>/g)].map((m) => m[1] ?? '')
  assert.ok(codes.length > 15, 'the guide lists incidents')
  for (const code of codes) for (const group of ['incident', 'todo']) assert.ok(`${group}_${code}` in en, `${group}_${code}`)
  assert.deepEqual(Object.keys(detailsOf).sort(), codes.sort())
  for (const code of codes) {
    const said = texts(en[`incident_${code}` as keyof typeof en]).at(-1) ?? ''
    assert.deepEqual(new Set([...said.matchAll(/\{(\w+)\}/g)].map((m) => m[1])), new Set([...said.includes('{node}') ? ['node'] : [], ...detailsOf[code]?.map(([name]) => name) ?? []]), said)
  }
})

test('an incident is a sentence with its figures as the language writes them', () => {
  const [inEnglish, inChinese] = [translationOf('en', en), translationOf('zh', zh)]
  for (const [incident, nodes, english, chinese] of [
    [{ code: 'disk_slow', node: 'n2', details: ['1530'] }, 3, 'n2: A commit takes 1,530 ms: the disk is slow', 'n2：提交一次平均耗时 1,530 毫秒：磁盘响应缓慢'],
    [{ code: 'disk_low', node: 'n1', details: ['1610612736', '2147483648'] }, 1, '1.5 GiB are free on the disk; below 2 GiB sends are refused', '磁盘空间不足：剩余 1.5 GiB，低于 2 GiB 时将拒绝发送消息'],
    [{ code: 'disk_filling', details: ['1610612736', '420'] }, 1, '1.5 GiB are free on the disk, and it fills up: at this pace sends are refused in 7 min', '磁盘剩余 1.5 GiB，并在持续减少：照此速度，7 分钟后将拒绝发送消息'],
    [{ code: 'certificate_ends', details: ['2026-12-24'] }, 1, 'The certificate of tls.cert_file ends on December 24, 2026: from then on clients refuse to connect', 'tls.cert_file 的证书将于 2026年12月24日到期，届时客户端将拒绝连接'],
    [{ code: 'clock_skew', node: 'n2', details: ['-1.5', 'n1'] }, 2, 'The clocks of n2 and n1 are 1.5 s apart', '节点 n2 与 n1 的时钟相差 1.5 秒'],
    [{ code: 'memory_full', details: ['memory/sends', '63963136', '67108864'] }, 1, 'Memory of unanswered sends: 61 MiB of 64 MiB are taken', '未应答发送的内存即将用尽：已用 61 MiB，上限 64 MiB'],
    [{ code: 'partitions_unowned', details: ['1'] }, 3, '1 partition has no node: sends to its conversations wait', '1 个分区没有归属节点，发往其中会话的消息正在等待'],
    [{ code: 'of_a_newer_server', text: 'something new' }, 3, 'something new', 'something new'],
  ] as const) {
    assert.equal(textOf(incident, nodes, inEnglish), english)
    assert.equal(textOf(incident, nodes, inChinese), chinese)
  }
})
