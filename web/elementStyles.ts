import path from 'node:path'

/**
 * Converts a style sheet of the page to one for an element in another page. It replaces :root and body by the
 * element, and conditions on the size of the window by conditions on that of the element. A rem becomes a variable,
 * because the other page may have changed its size. The other page can set each token as --petrel-NAME; embed.css
 * derives further tokens from these as --of-NAME. Menus and dialogs lie over the page, so they keep the conditions on
 * the window.
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

/**
 * Turns conditions on the width and height of the window into conditions on the element. Other conditions, such as
 * on the pointer, stay.
 */
function inContainer(css: string): string {
  return css.replace(/@media ([^{]*(?:width|height)[^{]*)(\{(?:[^{}]|\{[^{}]*\})*\})/g, (_, question: string, block: string) => {
    const parts = question.trim().split(' and ')
    const isSize = (part: string): boolean => /width|height/.test(part)
    const others = parts.filter((part) => !isSize(part))
    const inner = `@container petrel ${parts.filter(isSize).join(' and ')} ${block}`
    return others.length > 0 ? `@media ${others.join(' and ')} { ${inner} }` : inner
  })
}
