export { freeAddress, Server } from '../../sdk/ts/test/server.js'
