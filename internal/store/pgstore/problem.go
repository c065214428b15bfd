package pgstore

// Problem tells the operator why the databases cannot be used as they are.
type Problem struct {
	// Code is stable: database_unreachable, database_refused, database_unusable, store_too_new, other_store,
	// store_in_use, database_behind, database_waits or rewound.
	Code  string
	What  string
	Fix   string
	Cause error // nil: there is none
}

func (p *Problem) Error() string {
	text := p.What + ": " + p.Fix
	if p.Cause != nil {
		text += ": " + p.Cause.Error()
	}
	return text
}

func (p *Problem) Unwrap() error { return p.Cause }
