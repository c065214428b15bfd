import { type Account, type Client, isPetrelError } from '@petrel-im/sdk'

export type Found = Pick<Account, 'user' | 'displayName'>

/**
 * Finds a user by the id or the handle that a person has typed: by the id as it is, or else by the id and the handle in
 * small letters, because telephones begin a word with a capital. It rejects with no_user if there is none of them.
 */
export async function findUser(client: Client, typed: string, options: { readonly signal?: AbortSignal } = {}): Promise<Found> {
  const small = typed.toLowerCase()
  const ways: (() => Promise<Found>)[] = [() => client.getUser(typed, options)]
  if (small !== typed) ways.push(() => client.getUser(small, options))
  if (/^[a-z0-9_.]{3,32}$/.test(small)) ways.push(async () => ({ user: '', displayName: '', ...await client.call('petrel.v1.AccountService/GetUser', { handle: small }, options) }))
  let missing: unknown
  for (const find of ways) {
    try {
      return await find()
    } catch (why) {
      if (!isPetrelError(why) || why.code !== 'no_user') throw why
      missing = why
    }
  }
  throw missing
}
