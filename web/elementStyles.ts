import path from 'node:path'

/**
 * What a style sheet of the page says, for an element in a page of somebody else. There is
 * no :root and no body; widths are those of the element and not of the window; a rem is not
 * that of the page, whose authors may have made it any size; and each token can be set from
 * outside as --petrel-NAME, or follows from one that is, as embed.css says in --of-NAME. Menus
 * and dialogs are over the page and keep the sizes of the window.
 */
export function forElement(css: string, file: string): string {
  const name = path.basename(file)
  let out = css.replace(/(\d*\.?\d+)rem\b/g, 'calc($1 * var(--rem))')
  if (name === 'tokens.css') {
    out = out.replace(/:root \{[^}]*\}/, (tokens) => tokens.replace(/--([\w-]+): ([^;]+);/g, '--$1: var(--of-$1, var(--petrel-$1, $2));').replace('color-scheme: light dark;', ''))
      .replace('html, body, #root { height: 100%; margin: 0; }', '')
      .replace(/\bbody \{/g, '.petrel {')
      .replaceAll(':root', '.petrel')
  }
  if (name !== 'overlays.css') {
    out = inContainer(out).replace(/(\d)dvh\b/g, '$1cqh').replace(/(\d)vw\b/g, '$1cqw')
  }
  return out
}

/** Asks the element what was asked of the window: its width and height. Other conditions, as of the pointer, stay. */
function inContainer(css: string): string {
  return css.replace(/@media ([^{]*(?:width|height)[^{]*)(\{(?:[^{}]|\{[^{}]*\})*\})/g, (_, question: string, block: string) => {
    const parts = question.trim().split(' and ')
    const isSize = (part: string): boolean => /width|height/.test(part)
    const others = parts.filter((part) => !isSize(part))
    const inner = `@container petrel ${parts.filter(isSize).join(' and ')} ${block}`
    return others.length > 0 ? `@media ${others.join(' and ')} { ${inner} }` : inner
  })
}
