// Questions that a component in a shadow tree has to ask its own root instead of the document.

/** Returns the focused element, as seen by the root of the node. */
export function activeIn(node: Node): Element | null {
  const root = node.getRootNode()
  return root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null
}

/**
 * Returns the selected text, as seen by the root of the node: in Chromium the document does not know of a selection
 * in a shadow tree.
 */
export function selectedText(node: Node): string {
  const root = node.getRootNode() as { getSelection?: () => Selection | null }
  return (root.getSelection?.() ?? getSelection())?.toString() ?? ''
}
