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
	mu        sync.Mutex
	last      fence.Token             // the newest token given, of any resource
	leases    map[string]lease        // by resource
	abandoned map[uuid.UUID]time.Time // tombstones by holder: until when
	sweepAt   int                     // size at which what is over is thrown out
}

type lease struct {
	holder uuid.UUID // zero: released, but kept taken
	token  fence.Token
	label  string
	until  time.Time
}

func (l lease) heldBy(holder uuid.UUID) bool { return l.holder == holder && holder != uuid.Nil }

var _ driver.Driver = (*Driver)(nil)

var errAbandoned = errors.New("memlock: this acquire was abandoned")

// New returns an empty store.
func New() *Driver {
	return &Driver{
		leases:    make(map[string]lease),
		abandoned: make(map[uuid.UUID]time.Time),
		sweepAt:   64,
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
	if l, ok := d.live(r.Resource, now); ok {
		if l.heldBy(r.Holder) {
			return driver.Grant{Token: l.token, TTL: l.until.Sub(now)}, nil
		}
		return driver.Grant{}, &driver.Held{RetryAfter: l.until.Sub(now)}
	}
	if now.Before(d.abandoned[r.Holder]) {
		return driver.Grant{}, errAbandoned
	}
	d.sweep(now)
	d.last = max(d.last+1, fence.Token(now.UnixMicro()))
	d.leases[r.Resource] = lease{holder: r.Holder, token: d.last, label: r.Label, until: now.Add(r.TTL)}
	return driver.Grant{Token: d.last, TTL: r.TTL}, nil
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
		l, ok := d.live(r.Claim.Resource, now)
		if !ok || !l.heldBy(r.Claim.Holder) {
			errs[i] = driver.ErrLost
			continue
		}
		if until := now.Add(r.TTL); r.Shorten || until.After(l.until) {
			l.until = until
			d.leases[r.Claim.Resource] = l
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
	if c.Token == 0 {
		d.abandoned[c.Holder] = now.Add(driver.AbandonFor)
	}
	l, ok := d.live(c.Resource, now)
	switch {
	case ok && l.heldBy(c.Holder) && keep > 0:
		d.leases[c.Resource] = lease{token: l.token, label: l.label, until: now.Add(keep)}
	case ok && l.heldBy(c.Holder):
		delete(d.leases, c.Resource)
	case c.Token != 0:
		return driver.ErrLost
	}
	return nil
}

// Features implements [driver.Driver].
func (d *Driver) Features() driver.Features { return driver.Features{} }

func (d *Driver) live(resource string, now time.Time) (lease, bool) {
	l, ok := d.leases[resource]
	return l, ok && now.Before(l.until)
}

// sweep throws out what is over, each time the maps have doubled since the last time: the memory
// is bounded by what is live.
func (d *Driver) sweep(now time.Time) {
	if len(d.leases)+len(d.abandoned) < d.sweepAt {
		return
	}
	for resource, l := range d.leases {
		if !now.Before(l.until) {
			delete(d.leases, resource)
		}
	}
	for holder, until := range d.abandoned {
		if !now.Before(until) {
			delete(d.abandoned, holder)
		}
	}
	d.sweepAt = max(64, 2*(len(d.leases)+len(d.abandoned)))
}
