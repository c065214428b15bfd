// Package petrel is a client of a Petrel server: it keeps a connection, a user's conversations and the messages
// that are still to be sent, over lost links and restarts, so that every message is stored and shown exactly once
// and in order.
//
// A [Client] works as long as its Run has not returned. [Client.Send] takes a message at once and settles it
// later. A [Subscription] returns the names of changed parts, never their contents. Read the contents with
// [Client.Conversations] and [Client.Messages]. With a [Store] this state outlives the process. A bot is a loop
// over [Client.Incoming].
//
// P-4.7 and the like are clauses of the protocol, proto/README.md in the server's source. S-5.8 and the like are
// clauses of sdk/SPEC.md, the specification of every SDK.
package petrel
