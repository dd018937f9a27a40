package guardtest

import (
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// attempt is one call of a recorded history. The times come from one counter that rises with every
// event: a.end < b.start means that a was over before b began.
type attempt struct {
	claim      fence.Claim
	start, end int64
	err        error
}

// checkHistory looks for something that no order of the attempts explains: all are claims for one
// resource, and each took effect at some moment between its start and its end.
func checkHistory(history []attempt) error {
	for i, a := range history {
		check := checkRefused
		if a.err == nil {
			check = checkAdmitted
		}
		if err := check(history, i); err != nil {
			return err
		}
	}
	return nil
}

func checkAdmitted(history []attempt, i int) error {
	a := history[i]
	for j, b := range history {
		switch {
		case b.err != nil || i == j:
		case b.claim.Token > a.claim.Token && b.end < a.start:
			return fmt.Errorf("%v was admitted after %v had been", a.claim, b.claim)
		case b.claim.Token == a.claim.Token && b.claim.Holder != a.claim.Holder:
			return fmt.Errorf("%v and %v were both admitted", a.claim, b.claim)
		case b.claim.Token == a.claim.Token && a.claim.Holder == none:
			return fmt.Errorf("%v was admitted twice", a.claim)
		}
	}
	return nil
}

func checkRefused(history []attempt, i int) error {
	a := history[i]
	var rejected *fence.RejectedError
	if !errors.As(a.err, &rejected) {
		return fmt.Errorf("%v: neither admitted nor refused: %w", a.claim, a.err)
	}
	reason := func(b fence.Claim) bool {
		switch {
		case errors.Is(a.err, fence.ErrStale):
			return b.Token > a.claim.Token
		case errors.Is(a.err, fence.ErrDuplicate):
			return b.Token == a.claim.Token && b.Holder != a.claim.Holder && b.Holder != none && a.claim.Holder != none
		default:
			return b.Token == a.claim.Token && (b.Holder == none || a.claim.Holder == none)
		}
	}
	explained := false
	for _, b := range history {
		if b.err != nil {
			continue
		}
		if reason(b.claim) && b.claim.Token == rejected.Mark && b.start < a.end {
			explained = true
		}
		if b.claim.Token > rejected.Mark && b.end < a.start {
			return fmt.Errorf("%v was refused by the mark %v after %v had been admitted", a.claim, rejected.Mark, b.claim)
		}
	}
	if !explained {
		return fmt.Errorf("nothing explains the refusal: %w", a.err)
	}
	return nil
}
