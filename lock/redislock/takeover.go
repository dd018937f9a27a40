package redislock

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Resume implements [driver.Resumer].
func (d *Driver) Resume(ctx context.Context, c fence.Claim, r driver.Request) (driver.Grant, error) {
	k, old := keysOf(r.Resource, r.Holder), keysOf(c.Resource, c.Holder)
	return d.grant(ctx, resumeScript.call(4, k.lease).text(k.fence).text(k.gone).text(old.gone).
		text(k.holder).number(ms(r.TTL)).text(r.Label).number(d.idle).
		text(old.holder).text(c.Token.String()).number(ms(driver.AbandonFor)))
}

// Break implements [driver.Breaker]. With a fingerprint it looks first, in a round trip of its own: Redis
// can't compute one.
func (d *Driver) Break(ctx context.Context, r driver.Request, fingerprint string) (driver.Grant, error) {
	k := keysOf(r.Resource, r.Holder)
	take := breakScript.call(3, k.lease).text(k.fence).text(k.gone).
		text(k.holder).number(ms(r.TTL)).text(r.Label).number(d.idle)
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
