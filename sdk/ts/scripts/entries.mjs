// The entries of the package, and what an application brings along for them.
export const entries = ['index', 'node', 'protobuf', 'react']
export const external = ['@bufbuild/*', 'react', 'ws', 'node:*']
