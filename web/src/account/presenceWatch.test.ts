import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchFor } from './presenceWatch.js'

test('users are watched for as long as one view wants them, at most 200', async () => {
  const told: (readonly string[])[] = []
  const watch = watchFor({ watch: (users) => void told.push(users) })
  const list = watch(['bob', 'carol'])
  const chat = watch(['carol', 'dave'])
  await Promise.resolve()
  assert.deepEqual(told, [['bob', 'carol', 'dave']])
  list()
  const other = watch(['erin'])
  await Promise.resolve()
  assert.deepEqual(told.at(-1), ['carol', 'dave', 'erin'])
  chat()
  other()
  watch(Array.from({ length: 300 }, (_, i) => `u${i}`))
  await Promise.resolve()
  assert.equal(told.at(-1)?.length, 200)
  assert.equal(told.length, 3)
})

test('the users of the open conversation come before those of the list, and the server is asked only for another list', async () => {
  const told: { readonly users: readonly string[]; readonly conv: string | undefined }[] = []
  const watch = watchFor({ watch: (users, conv) => void told.push({ users, conv }) })
  watch(Array.from({ length: 200 }, (_, i) => `u${i}`))
  const bob = watch(['bob'], 'g1')
  await Promise.resolve()
  const again = watch(['bob'], 'g1') // another message of bob
  await Promise.resolve()
  assert.equal(told.length, 1)
  assert.equal(told[0]?.conv, 'g1')
  assert.equal(told[0]?.users.length, 200)
  assert.ok(told[0]?.users.includes('bob'))
  again()
  bob()
  await Promise.resolve()
  assert.equal(told[1]?.conv, '')
  assert.ok(!told[1]?.users.includes('bob'))
})
