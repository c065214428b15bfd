// Package petrel is a client of a Petrel server: it keeps a connection, a
// user's conversations and the messages that are still to be sent, over lost
// links and restarts, so that every message is stored and shown exactly once
// and in order.
//
// A [Client] works while its Run does. [Client.Send] takes a message at once and
// settles it later; what changes is told by a [Subscription], which never holds
// more than the names of what changed, and read as snapshots: [Client.Conversations],
// [Client.Messages]. With a [Store] all this outlives the process. A bot is a loop
// over [Client.Incoming].
//
// The clauses in these pages (P-4.7) are those of the protocol,
// proto/README.md in the server's source.
package petrel
