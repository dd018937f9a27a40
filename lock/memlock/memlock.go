package memlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Driver keeps leases in memory. Use New. Safe for concurrent use; starts no goroutine.
type Driver struct {
	start time.Time // where the clock for tokens and tickets begins

	mu        sync.Mutex
	states    map[string]*state          // by resource
	abandoned map[uuid.UUID]time.Time    // tombstones by holder: until when
	listeners map[uuid.UUID][]*listening // by the listener's id
	ticket    int64                      // the newest one given, of any resource
	sweepAt   int                        // the size at which to sweep
	sweepBy   time.Time                  // and when, if that is before
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Waiter    = (*Driver)(nil)
	_ driver.Resumer   = (*Driver)(nil)
	_ driver.Raiser    = (*Driver)(nil)
	_ driver.Breaker   = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
)

var errAbandoned = errors.New("memlock: this acquire was abandoned")

// New returns an empty store.
func New() *Driver {
	return &Driver{
		start:     time.Now(),
		states:    make(map[string]*state),
		abandoned: make(map[uuid.UUID]time.Time),
		listeners: make(map[uuid.UUID][]*listening),
	}
}

// Acquire implements [driver.Driver].
func (d *Driver) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.state(r.Resource, now)
	if s.heldBy(r.Holder, now) {
		return s.replay(now), nil
	}
	if d.isAbandoned(r.Holder, now) {
		return driver.Grant{}, errAbandoned
	}
	if left := s.takenFor(r.Holder, now); left > 0 {
		return driver.Grant{}, &driver.Held{RetryAfter: left}
	}
	if s.ahead(r.Holder) > 0 && !s.turn.of(r.Holder, now) {
		d.giveTurn(s, now, driver.TurnFor)
		return driver.Grant{}, &driver.Held{RetryAfter: driver.TurnFor}
	}
	return d.grant(s, r, now)
}

// Renew implements [driver.Driver].
func (d *Driver) Renew(ctx context.Context, rs []driver.Renewal) []error {
	errs := make([]error, len(rs))
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i, r := range rs {
		if errs[i] = ctx.Err(); errs[i] != nil {
			continue
		}
		s := d.states[r.Claim.Resource]
		if !s.heldBy(r.Claim.Holder, now) {
			errs[i] = driver.ErrLost
			continue
		}
		if until := now.Add(r.TTL); r.Shorten || until.After(s.lease.until) {
			s.lease.until = until
		}
	}
	return errs
}

// Release implements [driver.Driver].
func (d *Driver) Release(ctx context.Context, c fence.Claim, keep time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.states[c.Resource]
	switch {
	case c.Token == 0:
		d.bury(c.Holder, now)
		if s.heldBy(c.Holder, now) {
			d.end(s, 0, now)
		}
	case !s.heldBy(c.Holder, now):
		return driver.ErrLost
	default:
		d.end(s, keep, now)
	}
	return nil
}

// end ends the lease of s. What is kept is nobody's, and ends by itself.
func (d *Driver) end(s *state, keep time.Duration, now time.Time) {
	if keep > 0 {
		s.lease.holder, s.lease.until = uuid.Nil, now.Add(keep)
		return
	}
	s.lease = lease{}
	d.giveTurn(s, now, driver.TurnFor)
}

// grant stores the lease. Nobody else has the resource, or a right to it.
func (d *Driver) grant(s *state, r driver.Request, now time.Time) (driver.Grant, error) {
	s.leave(r.Holder)
	token, err := d.nextToken(s, 0, now)
	if err != nil {
		return driver.Grant{}, err
	}
	s.turn = turn{}
	s.lease = lease{holder: r.Holder, token: token, label: r.Label, until: now.Add(r.TTL)}
	return driver.Grant{Token: token, TTL: r.TTL}, nil
}

// Features implements [driver.Driver].
func (d *Driver) Features() driver.Features { return driver.Features{} }
