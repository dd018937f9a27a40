package redislock

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Resume implements [driver.Resumer].
func (d *Driver) Resume(ctx context.Context, c fence.Claim, r driver.Request) (driver.Grant, error) {
	return d.grant(ctx, d.takeOver(resumeScript, r).text(c.Holder.String()).text(c.Token.String()))
}

// Break implements [driver.Breaker]. With a fingerprint it looks first, in a round trip of its own: Redis
// can't compute one.
func (d *Driver) Break(ctx context.Context, r driver.Request, fingerprint string) (driver.Grant, error) {
	take := d.takeOver(breakScript, r)
	if fingerprint != "" {
		seen, err := d.look(ctx, r.Resource)
		if err != nil {
			return driver.Grant{}, err
		}
		l := seen.lease()
		switch {
		case l.holder == r.Holder: // a replay
		case !l.held || l.fingerprint != fingerprint:
			return driver.Grant{}, driver.ErrLost
		case l.holder == uuid.Nil:
			take.text(seen.value)
		default:
			take.text(l.holder.String() + " ")
		}
	}
	return d.grant(ctx, take)
}

// takeOver is the command of a script that gives the resource to another holder.
func (d *Driver) takeOver(s *script, r driver.Request) *command {
	k := keysOf(r.Resource, r.Holder)
	return s.call(3, k.lease).text(k.fence).text(k.gone).text(k.holder).number(ms(r.TTL)).text(r.Label).number(d.idle)
}
