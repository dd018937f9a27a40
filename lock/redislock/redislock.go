package redislock

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Driver keeps leases in Redis. Use New. Safe for concurrent use; starts no goroutine.
type Driver struct {
	rdb  redis.UniversalClient
	idle time.Duration // life of an unused counter; 0: for ever
}

var _ driver.Driver = (*Driver)(nil)

// Option sets how a Driver works.
type Option func(*Driver)

// PlainCounter makes tokens 1, 2, 3 ... without a look at the clock. The counter never expires: one
// small key stays for every resource name ever used. If it is lost - a failover, a FLUSHALL, an
// eviction - tokens start over, and guards refuse them until they have caught up. Don't switch a live
// system to it: guards have seen tokens of the clock's size.
func PlainCounter() Option { return func(d *Driver) { d.idle = 0 } }

const idleTime = 24 * time.Hour

// New returns a driver on rdb, whose options it leaves alone and which it never closes. It panics if
// rdb is nil.
func New(rdb redis.UniversalClient, opts ...Option) *Driver {
	if rdb == nil {
		panic("redislock.New: the client is nil")
	}
	d := &Driver{rdb: rdb, idle: idleTime}
	for _, o := range opts {
		o(d)
	}
	return d
}

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed abandon.lua
	abandonSource string

	acquireScript = redis.NewScript(acquireSource)
	renewScript   = redis.NewScript(renewSource)
	releaseScript = redis.NewScript(releaseSource)
	abandonScript = redis.NewScript(abandonSource)
)

// Acquire implements [driver.Driver].
func (d *Driver) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	k := keysOf(r.Resource)
	reply, err := acquireScript.Run(ctx, d.rdb, []string{k.lease, k.fence, k.gone(r.Holder)},
		r.Holder.String(), ms(r.TTL), r.Label, ms(d.idle)).Text()
	if err != nil {
		return driver.Grant{}, err
	}
	return parseAcquired(reply)
}

// parseAcquired reads what acquire.lua replies.
func parseAcquired(reply string) (driver.Grant, error) {
	word, rest, _ := strings.Cut(reply, " ")
	switch word {
	case "granted":
		text, left, _ := strings.Cut(rest, " ")
		token, err := fence.ParseToken(text)
		if err != nil {
			return driver.Grant{}, fmt.Errorf("redislock: the acquire script replied %q: %v", reply, err) // not the caller's fault
		}
		ttl, err := strconv.ParseInt(left, 10, 64)
		if err != nil {
			return driver.Grant{}, fmt.Errorf("redislock: the acquire script replied %q: %w", reply, err)
		}
		return driver.Grant{Token: token, TTL: time.Duration(ttl) * time.Millisecond}, nil
	case "held":
		left, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return driver.Grant{}, fmt.Errorf("redislock: the acquire script replied %q: %w", reply, err)
		}
		return driver.Grant{}, &driver.Held{RetryAfter: max(0, time.Duration(left)) * time.Millisecond}
	case "abandoned":
		return driver.Grant{}, fmt.Errorf("redislock: this acquire was abandoned")
	}
	return driver.Grant{}, fmt.Errorf("redislock: the acquire script replied %q", reply)
}

// Release implements [driver.Driver].
func (d *Driver) Release(ctx context.Context, c fence.Claim, keep time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k := keysOf(c.Resource)
	if c.Token == 0 {
		return abandonScript.Run(ctx, d.rdb, []string{k.lease, k.gone(c.Holder)},
			c.Holder.String(), ms(driver.AbandonFor)).Err()
	}
	done, err := releaseScript.Run(ctx, d.rdb, []string{k.lease}, c.Holder.String(), ms(keep)).Int()
	switch {
	case err != nil:
		return err
	case done == 0:
		return driver.ErrLost
	}
	return nil
}

// Features implements [driver.Driver].
func (d *Driver) Features() driver.Features { return driver.Features{} }

// ms is d in whole milliseconds, rounded up.
func ms(d time.Duration) int64 {
	if d%time.Millisecond > 0 {
		return d.Milliseconds() + 1
	}
	return d.Milliseconds()
}
