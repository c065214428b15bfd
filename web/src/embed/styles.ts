// One style sheet for all elements of a page. It is constructed by script, so a content security policy without
// foreign styles permits it. vite.embed.config.ts turns each style sheet into a call of addStyles.

export const sheet = new CSSStyleSheet()

const parts: string[] = []

export function addStyles(css: string): void {
  parts.push(css)
  sheet.replaceSync(parts.join('\n'))
}
