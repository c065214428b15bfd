const gapPx = 8 // between a message and the menu below it

/**
 * Moves the messages up when a menu at the lower edge would cover its own message. The upper edge of that message
 * stays in view. The returned function moves them back.
 */
export function lift(message: Element | undefined, topPx: number): () => void {
  const content = message?.closest<HTMLElement>('.timeline-content')
  const view = content?.parentElement
  if (!message || !content || !view) return () => {}
  const { top, bottom } = message.getBoundingClientRect()
  const room = top - view.getBoundingClientRect().top - gapPx
  const by = Math.min(bottom + gapPx - topPx, room)
  if (by > 0) content.style.translate = `0 ${-by}px`
  return () => {
    content.style.translate = ''
  }
}
