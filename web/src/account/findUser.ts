import { type Account, type Client, isPetrelError } from '@petrel-im/sdk'

/**
 * Finds a user by the id that a person has typed: as it is, or else in small letters, because telephones begin a
 * word with a capital. It rejects with no_user if there is neither.
 */
export async function findUser(client: Client, typed: string, options: { readonly signal?: AbortSignal } = {}): Promise<Account> {
  try {
    return await client.getUser(typed, options)
  } catch (why) {
    const small = typed.toLowerCase()
    if (small === typed || !isPetrelError(why) || why.code !== 'no_user') throw why
    return client.getUser(small, options)
  }
}
