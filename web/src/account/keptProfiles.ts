import type { Client } from '@petrel-im/sdk'
import { Profiles, type SavedProfiles } from '@petrel-im/sdk/profiles'
import { keep, recall } from '../browserStorage.js'

const mostKept = 2000 // all of them in the few MB that a browser keeps for a site

/** Returns the profiles that the views of an account show. This browser keeps them. */
export function keptProfiles(client: Client, account: string): Profiles {
  const key = `${account}:profiles`
  return new Profiles(client, {
    most: mostKept,
    load: () => {
      try {
        return JSON.parse(recall(key) || 'null') as SavedProfiles | null ?? undefined
      } catch {
        return undefined // they are asked for again
      }
    },
    save: (saved) => keep(key, JSON.stringify(saved)),
  })
}
