/**
 * Size and border of the element, and its colours until the chat is loaded. Any rule of the page, even one for `*`,
 * wins over a rule for :host. So the chat is positioned over the element: a padding of the element does not move
 * it, and the shadow stays if a page resets all borders. Sizes are in px, because a page may have changed the size
 * of a rem.
 */
const css = `
:host { display: block; box-sizing: border-box; contain: layout; overflow: hidden; width: 384px; min-width: 0; max-width: min(100%, 100vw); height: 576px; min-height: 200px; max-height: 100dvh;
  border: 1px solid light-dark(#0f182029, #ffffff26); border-radius: 12px; box-shadow: 0 1px 2px #0f18201f, 0 4px 16px #0f18201a; background: light-dark(#ffffff, #18222d); }
:host([theme="light"]) { color-scheme: light; }
:host([theme="dark"]) { color-scheme: dark; }
:host([theme="system"]) { color-scheme: light dark; }
:host([hidden]) { display: none; }
.not-loaded { all: initial; position: absolute; inset: 0; display: grid; place-content: center; justify-items: center; gap: 12px; padding: 24px; overflow: auto; color-scheme: inherit; visibility: inherit;
  font: var(--petrel-font-size, 16px)/1.35 var(--petrel-font, system-ui, sans-serif); text-align: center; color: light-dark(#0f1820, #f0f4f8); background: light-dark(#ffffff, #18222d); }
.not-loaded p { margin: 0; }
.not-loaded button { font: inherit; padding: 8px 16px; }
`.replace(/\s+/g, ' ')

let sheet: CSSStyleSheet | undefined

/**
 * Returns the style sheet that all elements of a page share. It is made on demand, because a server has no
 * CSSStyleSheet.
 */
export function frame(): CSSStyleSheet {
  if (!sheet) {
    sheet = new CSSStyleSheet()
    sheet.replaceSync(css)
  }
  return sheet
}
