/** The esbuild options for code that runs in Node. */
export const bundled = { external: ['playwright-core', 'axe-core', 'esbuild', 'vite'], conditions: ['petrel-source'] }
