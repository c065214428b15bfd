package cluster

// Kinds of frames in the numbered streams between nodes. They are part of the protocol: never reuse a
// number. The messages are in clusterpb, those of route in routepb, those of session in sessionpb. This
// package is below all three senders, so the one table here keeps two of them from using the same number.
const (
	KindOnline      byte = 1 // Online, of fanout
	KindDelivery    byte = 2 // Delivery, of fanout
	KindReceipts    byte = 3 // Receipts, of fanout
	KindSends       byte = 4 // Sends, of route
	KindNotOwner    byte = 5 // NotOwner, of route
	KindRevocations byte = 6 // Revocations, of session
	KindToSignal    byte = 7 // Signal, of route
	KindSignal      byte = 8 // Signal, of fanout

	KindPresencePolicy byte = 9  // PresencePolicy, of fanout
	KindNotes          byte = 10 // Notes, of fanout
)
