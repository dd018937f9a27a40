package memlock

import (
	"context"
	"math"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

const lastToken = fence.Token(math.MaxInt64)

// clock is the wall clock at the start and the monotonic clock since then, in microseconds. It never
// falls: a state that is thrown out once the clock has passed its last token is not missed.
func (d *Driver) clock(now time.Time) int64 {
	return d.start.UnixMicro() + now.Sub(d.start).Microseconds()
}

// nextToken takes the next token of s that is larger than past.
func (d *Driver) nextToken(s *state, past fence.Token, now time.Time) (fence.Token, error) {
	past = max(past, s.last)
	if past == lastToken {
		return 0, driver.ErrExhausted
	}
	s.last = max(past+1, fence.Token(d.clock(now)))
	return s.last, nil
}

// Raise implements [driver.Raiser]. A resource is remembered until the clock has passed its last token:
// one that is raised far into the future stays in memory.
func (d *Driver) Raise(ctx context.Context, resource string, past fence.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if past == lastToken {
		return driver.ErrExhausted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.state(resource, time.Now())
	s.last = max(s.last, past)
	return nil
}

// Advance implements [driver.Raiser].
func (d *Driver) Advance(ctx context.Context, c fence.Claim, past fence.Token) (fence.Token, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.states[c.Resource]
	if !s.heldBy(c.Holder, now) {
		return 0, driver.ErrLost
	}
	if s.lease.token != c.Token && s.lease.token > past {
		return s.lease.token, nil
	}
	token, err := d.nextToken(s, past, now)
	if err != nil {
		return 0, err
	}
	s.lease.token = token
	return token, nil
}
