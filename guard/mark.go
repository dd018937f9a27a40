package guard

import (
	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
)

// Mark is a guard's high-water mark of one resource: the newest claim admitted. The zero Mark
// admits everything that is valid.
type Mark struct {
	Token  fence.Token
	Holder uuid.UUID // zero: unknown, or a once-rule mark that has no holder
}

// Judge applies the rule of the package comment: it returns nil if the mark lets c in, otherwise a
// *[fence.RejectedError]. It is the one place in Go where the rule stands; guards that decide inside
// their store call it to name the reason of a refusal.
func (m Mark) Judge(c fence.Claim) error {
	switch {
	case c.Token > m.Token:
		return nil
	case c.Token < m.Token:
		return &fence.RejectedError{Claim: c, Mark: m.Token, Verdict: fence.ErrStale}
	case c.Holder == uuid.Nil || m.Holder == uuid.Nil:
		return &fence.RejectedError{Claim: c, Mark: m.Token, Verdict: fence.ErrReplayed}
	case c.Holder != m.Holder:
		return &fence.RejectedError{Claim: c, Mark: m.Token, Verdict: fence.ErrDuplicate}
	default:
		return nil
	}
}
