package driver

import (
	"errors"
	"fmt"
	"time"
)

// ErrLost says that the holder has no lease on the resource any more; it expired, or was ended by
// somebody.
var ErrLost = errors.New("lock: lost")

// ErrExhausted says that no larger token is left: they end at 9223372036854775807.
var ErrExhausted = errors.New("lock: no token left")

// Held says that another holder has the resource.
type Held struct {
	RetryAfter time.Duration // what is left of the other's lease; 0: unknown
}

// Error says for how long, if that is known.
func (h *Held) Error() string {
	if h.RetryAfter <= 0 {
		return "lock: held"
	}
	return fmt.Sprintf("lock: held for another %v", h.RetryAfter)
}
