package redislock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Driver keeps leases in Redis. Use New. Safe for concurrent use; starts no goroutine that outlives a
// call.
type Driver struct {
	rdb  redis.UniversalClient
	idle int64 // life of an unused counter in ms; 0: for ever
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Waiter    = (*Driver)(nil)
	_ driver.Resumer   = (*Driver)(nil)
	_ driver.Raiser    = (*Driver)(nil)
	_ driver.Breaker   = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
)

// Option sets how a Driver works.
type Option func(*Driver)

// PlainCounter makes tokens 1, 2, 3 ... without a look at the clock. The counter never expires: one
// small key stays for every resource name ever used. If it is lost - a failover, a FLUSHALL, an
// eviction - tokens start over, and guards refuse them until they have caught up. Don't switch a live
// system to it: guards have seen tokens of the clock's size.
func PlainCounter() Option { return func(d *Driver) { d.idle = 0 } }

// IdleTime sets how long a resource's counter outlives its last lease, in whole milliseconds, at least one.
// Default 24 h. Tokens go on rising after that by the server's clock: d is for how far that clock may be
// set back, or differ from the clock of a server that takes over. It panics if d is less than 1 ms.
func IdleTime(d time.Duration) Option {
	if d < time.Millisecond {
		panic(fmt.Sprintf("redislock.IdleTime(%v): want at least 1 ms", d))
	}
	return func(r *Driver) { r.idle = ms(d) }
}

const idleTime = 24 * time.Hour

// New returns a driver on rdb, whose options it leaves alone and which it never closes. It panics if
// rdb is nil, or a Ring, whose shards don't tell each other what is published.
//
// Switch ContextTimeoutEnabled on in rdb's options: then package lock needs no goroutine for each call, but for those that
// take longer than 250 ms. On a small machine that takes up to half of the time off a turn.
func New(rdb redis.UniversalClient, opts ...Option) *Driver {
	if rdb == nil {
		panic("redislock.New: the client is nil")
	}
	if _, ring := rdb.(*redis.Ring); ring {
		panic("redislock.New: the client is a Ring, want a Client or a ClusterClient")
	}
	d := &Driver{rdb: rdb, idle: ms(idleTime)}
	for _, o := range opts {
		o(d)
	}
	return d
}

// Acquire implements [driver.Driver].
func (d *Driver) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	return d.grant(ctx, d.acquire(r))
}

// acquire is the command of a try.
func (d *Driver) acquire(r driver.Request) *command {
	k := keysOf(r.Resource, r.Holder)
	return acquireScript.call(5, k.lease).text(k.fence).text(k.queue).text(k.seen).text(k.gone).
		text(k.holder).number(ms(r.TTL)).text(r.Label).number(d.idle)
}

// Release implements [driver.Driver].
func (d *Driver) Release(ctx context.Context, c fence.Claim, keep time.Duration) error {
	k := keysOf(c.Resource, c.Holder)
	if c.Token == 0 {
		return d.leave(ctx, leave(k))
	}
	return onlyHolder(releaseScript.call(2, k.lease).text(k.queue).text(k.holder).number(ms(keep)).send(ctx, d.rdb).Int())
}

// leave is the command that gives up what the holder has, or may yet get.
func leave(k keys) *command {
	return leaveScript.call(4, k.lease).text(k.queue).text(k.seen).text(k.gone).
		text(k.holder).number(ms(driver.AbandonFor))
}

func (d *Driver) leave(ctx context.Context, c *command) error {
	reply, err := c.send(ctx, d.rdb).Text()
	if err == nil && reply != "OK" {
		return senseless(reply)
	}
	return err
}

// onlyHolder reads a reply that is 0 if the holder has no lease.
func onlyHolder(done int, err error) error {
	switch {
	case err != nil:
		return err
	case done == 0:
		return driver.ErrLost
	case done != 1:
		return senseless(done)
	}
	return nil
}

// Features implements [driver.Driver].
func (d *Driver) Features() driver.Features {
	return featuresOf(d.rdb)
}

// ms is d in whole milliseconds, rounded up.
func ms(d time.Duration) int64 {
	if d%time.Millisecond > 0 {
		return d.Milliseconds() + 1
	}
	return d.Milliseconds()
}
