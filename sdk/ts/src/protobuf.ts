// Encodes frames in protobuf, which saves traffic: `new Client({ codec: protobuf, … })`. It needs
// @bufbuild/protobuf, which the application installs.
import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf'
import type { Codec } from './options.js'
import { ClientFrame, ServerFrame } from './wire/schema_gen.js'

export const protobuf: Codec = {
  encode(frame) {
    const data = toBinary(ClientFrame, fromJson(ClientFrame, frame as JsonValue))
    return { data, bytes: data.length }
  },
  decode(data) {
    if (typeof data === 'string') return JSON.parse(data) as unknown // an error that was sent before the server knew the codec
    return toJson(ServerFrame, fromBinary(ServerFrame, data))
  },
}
