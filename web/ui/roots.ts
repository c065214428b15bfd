// Questions to a document that a component in a shadow tree has to ask its own tree.

/** The element that has the focus, as the tree of the node sees it. */
export function activeIn(node: Node): Element | null {
  const root = node.getRootNode()
  return root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null
}

/** The text that is selected there. Chromium tells the document nothing of a selection in a shadow tree. */
export function selectedText(node: Node): string {
  const root = node.getRootNode() as { getSelection?: () => Selection | null }
  return (root.getSelection?.() ?? getSelection())?.toString() ?? ''
}
