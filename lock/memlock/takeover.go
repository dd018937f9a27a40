package memlock

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Resume implements [driver.Resumer].
func (d *Driver) Resume(ctx context.Context, c fence.Claim, r driver.Request) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.states[c.Resource]
	switch {
	case s.heldBy(r.Holder, now):
		return s.replay(now), nil
	case d.isAbandoned(r.Holder, now):
		return driver.Grant{}, errAbandoned
	case !s.heldBy(c.Holder, now) || s.lease.token != c.Token:
		return driver.Grant{}, driver.ErrLost
	}
	token, err := d.nextToken(s, 0, now)
	if err != nil {
		return driver.Grant{}, err
	}
	until := s.lease.until
	if r.TTL > 0 {
		until = now.Add(r.TTL)
	}
	s.lease = lease{holder: r.Holder, token: token, label: r.Label, until: until}
	d.bury(c.Holder, now)
	return driver.Grant{Token: token, TTL: until.Sub(now)}, nil
}

// Break implements [driver.Breaker]. Those in line stay there, and who has the turn loses it: with its
// ticket it is the first again.
func (d *Driver) Break(ctx context.Context, r driver.Request, fingerprint string) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	s := d.state(r.Resource, now)
	switch {
	case s.heldBy(r.Holder, now):
		return s.replay(now), nil
	case d.isAbandoned(r.Holder, now):
		return driver.Grant{}, errAbandoned
	case fingerprint != "" && (!s.held(now) || fence.Fingerprint(s.lease.holder) != fingerprint):
		return driver.Grant{}, driver.ErrLost
	}
	return d.grant(s, r, now)
}
