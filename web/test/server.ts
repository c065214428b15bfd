export { Server } from '../../sdk/ts/test/server.js'
