import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Client } from '@petrel-im/sdk'
import { Names } from './displayNames.js'

describe('display names', () => {
  test('those that a list shows first are asked for at once, others as often as the server allows', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const asked: string[] = []
    const client = { getUser: (user: string) => {
      asked.push(user)
      return Promise.resolve({ displayName: `name of ${user}` })
    } } as unknown as Client
    const names = new Names(client, 'alice')
    for (let i = 0; i < 30; i++) names.want(`user${i}`)
    const pass = async (ms: number, times: number): Promise<void> => {
      for (let i = 0; i < times; i++) {
        t.mock.timers.tick(ms)
        await Promise.resolve().then(() => {}).then(() => {})
      }
    }
    await pass(0, 40)
    assert.equal(asked.length, 20)
    assert.equal(names.of('user19'), 'name of user19')
    await pass(2500, 3)
    assert.equal(asked.length, 23)
    names.end()
  })

  test('those of a chat that opens are asked for before the rest of a long list', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const asked: string[] = []
    const client = { getUser: (user: string) => {
      asked.push(user)
      return Promise.resolve({ displayName: user })
    } } as unknown as Client
    const names = new Names(client, 'alice')
    const pass = async (): Promise<void> => {
      t.mock.timers.tick(2500)
      await Promise.resolve().then(() => {}).then(() => {})
    }
    for (let i = 0; i < 100; i++) names.want(`user${i}`)
    await pass()
    for (const user of ['bob', 'user90', 'carol']) names.want(user)
    for (let i = 0; i < 4; i++) await pass()
    assert.deepEqual(asked, ['user0', 'bob', 'user90', 'carol', 'user1'])
    names.end()
  })
})
