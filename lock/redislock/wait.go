package redislock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock/driver"
)

// pingAfter is when a silent subscription is asked whether it lives; as long again, and it is given up.
const pingAfter = 2 * time.Second

// channel is where a listener is told. It is no key: in Cluster, any node passes it on to all.
func channel(listener uuid.UUID) string { return "ringfence:" + listener.String() }

// Wait implements [driver.Waiter].
func (d *Driver) Wait(ctx context.Context, r driver.Request, p driver.Place) (driver.Grant, error) {
	return d.grant(ctx, d.acquire(r).text(p.Listener.String()).number(p.Ticket).number(p.Overdue.Milliseconds()))
}

// Leave implements [driver.Waiter].
func (d *Driver) Leave(ctx context.Context, resource string, holder, listener uuid.UUID) error {
	return d.leave(ctx, leave(keysOf(resource, holder)).text(listener.String()))
}

// Listen implements [driver.Waiter]: one subscription to one channel.
func (d *Driver) Listen(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sub := d.rdb.Subscribe(ctx, channel(listener))
	defer func() { _ = sub.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // a read does not look at ctx
	defer stop()
	asked := false
	for {
		m, err := sub.ReceiveTimeout(ctx, pingAfter)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && isTimeout(err) && !asked:
			asked = true
			err = sub.Ping(ctx)
		case err == nil:
			asked = false
		}
		if err != nil {
			return fmt.Errorf("redislock: subscription: %w", err)
		}
		switch m := m.(type) {
		case *redis.Subscription:
			ready()
		case *redis.Message:
			parseTurns(m.Payload, turn)
		}
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// parseTurns reads what turn.lua tells: "<holder> <ms>", one or more. Anybody can publish; what makes no
// sense is dropped.
func parseTurns(message string, turn func(driver.Turn)) {
	for rest := message; rest != ""; {
		var name, after string
		name, rest, _ = strings.Cut(rest, " ")
		after, rest, _ = strings.Cut(rest, " ")
		holder, notUUID := uuid.Parse(name)
		wait, notNumber := strconv.ParseUint(after, 10, 32)
		if notUUID != nil || notNumber != nil {
			return
		}
		turn(driver.Turn{Holder: holder, After: time.Duration(wait) * time.Millisecond})
	}
}
