package redislock

import (
	"context"
	"math"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Raise implements [driver.Raiser].
func (d *Driver) Raise(ctx context.Context, resource string, past fence.Token) error {
	if past == math.MaxInt64 {
		return driver.ErrExhausted
	}
	reply, err := raiseScript.call(1, keysOf(resource, uuid.Nil).fence).text(past.String()).number(d.idle).send(ctx, d.rdb).Int()
	if err == nil && reply != 1 {
		return senseless(reply)
	}
	return err
}

// Advance implements [driver.Raiser].
func (d *Driver) Advance(ctx context.Context, c fence.Claim, past fence.Token) (fence.Token, error) {
	if past == math.MaxInt64 {
		return 0, driver.ErrExhausted
	}
	k := keysOf(c.Resource, c.Holder)
	reply, err := advanceScript.call(3, k.lease).text(k.fence).text(k.queue).
		text(k.holder).text(c.Token.String()).text(past.String()).number(d.idle).send(ctx, d.rdb).Text()
	switch {
	case err != nil:
		return 0, explain(err)
	case reply == "lost":
		return 0, driver.ErrLost
	}
	token, err := fence.ParseToken(reply)
	if err != nil {
		return 0, senseless(reply) // and not the caller's fault
	}
	return token, nil
}
