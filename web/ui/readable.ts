/** Pairs of a text colour and its background. Each pair has a contrast of at least 4.5:1 in both themes. */
export const readable: readonly (readonly [ink: string, paper: string])[] = [
  ['text', 'surface'], ['text', 'surface-raised'], ['text', 'surface-sunk'], ['text', 'surface-hover'],
  ['text-quiet', 'surface'], ['text-quiet', 'surface-raised'], ['text-quiet', 'surface-sunk'], ['text-quiet', 'surface-hover'],
  ['accent', 'surface'], ['accent', 'surface-raised'], ['accent', 'accent-soft'], ['danger', 'surface'], ['danger', 'surface-raised'],
  ['text-on-accent', 'accent-solid'], ['text-on-accent', 'accent-solid-hover'], ['text-on-accent', 'danger-solid'], ['text-on-accent', 'muted-badge'],
  ['text-on-selected', 'surface-selected'], ['text-quiet-on-selected', 'surface-selected'], ['service-text', 'service'],
  ['bubble-text', 'bubble'], ['bubble-quiet', 'bubble'], ['bubble-text', 'bubble-own'], ['bubble-own-quiet', 'bubble-own'], ['bubble-own-accent', 'bubble-own'], ['bubble-own-danger', 'bubble-own'],
]
