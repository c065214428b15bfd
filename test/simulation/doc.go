// Package simulation plays whole nodes under one seed. Three nodes, each with its
// conversations, online table, streams, router and cluster, share one store on a disk of
// memory and one bus, in a bubble of testing/synctest: time is fake, and all timeouts are those
// of a server. Clients do what proto/README.md tells them: they connect again, resend with the
// same client message id until they know what became of a message, and fill their gaps.
//
// # What a seed draws
//
// How many users and groups there are, how long the disk, the store and the bus take, how
// patient clients are and how small their outboxes. Then steps, of two tables: what clients do
// (load_test.go) and what breaks (faults_test.go). A new op or fault is one row there.
//
// Clients send to users and groups, with and without after, alone and in bursts; they send the
// same again on another device, also with another body; they edit, recall, react, change
// members and roles, move cursors, read pages, heads and cursors, change their focus, connect
// to another node, and go away.
//
// Messages between nodes are lost, doubled and late; nodes are cut off from each other in one or
// both directions, frozen, drained, stopped, killed and started again. A node takes the feed
// over though its owner has not released it. Commits wait before the store and after it, are
// refused, and have an unknown outcome; the feed breaks, the disk is slow. The power fails: all
// nodes start again on what was synced, and a part of what was not.
//
// # What is judged
//
// Safety: whatever happens, and at any time. Clients write their observations into
// an op log, and internal/checker judges it: nothing that was acked is lost, nothing is doubled, made up,
// changed or out of order; heads and cursors do not go back; nobody is shown what they may not
// read, or a body after its recall was acked. Beside that, this package follows the members of
// each group through its history.
//
// Liveness: only after the faults have ended. Then, within 90 s, all nodes agree who owns the
// feed, the fate of every send is known, and every client has every entry that its user may
// read, without asking on its own.
//
// # What is not covered
//
// Gateways, sessions with their tokens and revocations, inboxes, notifications, several feeds,
// PostgreSQL, NATS, real networks, and the SDKs: test/chaos, test/walk and test/scenario are about these.
//
// # A seed that fails
//
// The failure prints what was drawn and what happened when, and the seed. Go's scheduler is free
// to run goroutines of a bubble in any order, and random ids differ from run to run, so a replay
// is likely to fail again, but not certain to:
//
//	go test ./test/simulation -run TestSimulation -args -seed 17
//	go test ./test/simulation -run TestSimulation -args -seed 17 -oplog run.jsonl && petrel check run.jsonl
//
// test/sabotage shows that it convicts: for each of the promises I1 to I9 a fault that is
// planted is found within 1,000 seeds (TestSimulationFindsAFaultOfEachPromise).
package simulation
