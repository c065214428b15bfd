package im

// Standing is what holds for all sessions of a user. They learn a change of it while they last.
type Standing struct {
	MutedMs        uint64 // the user writes nothing before this time, Unix milliseconds. Spec: P-14.24
	PrivateReading bool   // nobody learns how far the user has read, and the user learns it of nobody. Spec: P-14.14
}
