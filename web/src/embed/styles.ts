// One style sheet for all elements of a page, made in the page: a policy that lets in no
// styles from elsewhere lets it in. vite.embed.config.ts has all style sheets call addStyles.

export const sheet = new CSSStyleSheet()

const parts: string[] = []

export function addStyles(css: string): void {
  parts.push(css)
  sheet.replaceSync(parts.join('\n'))
}
