package lock

import "time"

// margin is what a lease's deadline is early, so that it is over here before the store lets the next
// holder in.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/100, 5*time.Millisecond)
}

// deadline is when a lease of ttl, asked for at sent, is over for its holder (L05).
func deadline(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - margin(ttl))
}

// passed reports whether t is reached by the monotonic clock or by the wall clock. The monotonic
// clock stands still while a machine sleeps, the wall clock can be set back; t is in the future only
// if both say so (L06).
func passed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}
