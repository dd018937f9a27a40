package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

// ttl is the leases' time to live wherever it plays no part.
const ttl = 30 * time.Second

// library is a way to lock.
type library struct {
	name string
	open func(rdb *redis.Client) (locker, error)
}

// locker is a library at work in one process.
type locker interface {
	// turn acquires name, which is free, and releases it.
	turn(ctx context.Context, name string) error
	// acquire waits for name until ctx ends.
	acquire(ctx context.Context, name string) (release func(context.Context) error, err error)
	close() error
}

var (
	bareCommands = library{"SET NX PX + DEL", func(rdb *redis.Client) (locker, error) { return bare{rdb}, nil }}
	ringfence    = library{"ringfence", func(rdb *redis.Client) (locker, error) { return openRingfence(rdb, ttl) }}
	// Without ContextTimeoutEnabled go-redis does not look at deadlines, and each call needs a goroutine.
	byDefault = library{"ringfence, default client", func(rdb *redis.Client) (locker, error) {
		o := *rdb.Options()
		o.ContextTimeoutEnabled = false
		own := redis.NewClient(&o)
		l, err := openRingfence(own, ttl)
		return onOwn{l, own}, err
	}}
)

// bare is the two commands that everything is compared with: it does not wait, does not renew, and
// deletes whatever there is.
type bare struct{ rdb *redis.Client }

func (b bare) turn(ctx context.Context, name string) error {
	key := "lock:" + name
	// Whole seconds go out as EX; PX costs the same.
	if err := b.rdb.SetArgs(ctx, key, uuid.NewString(), redis.SetArgs{Mode: "NX", TTL: ttl}).Err(); err != nil {
		return err
	}
	return b.rdb.Del(ctx, key).Err()
}

func (bare) acquire(context.Context, string) (func(context.Context) error, error) {
	return nil, fmt.Errorf("the bare commands do not wait")
}

func (bare) close() error { return nil }

type fenced struct{ *lock.Locker }

func openRingfence(rdb *redis.Client, ttl time.Duration, opts ...redislock.Option) (fenced, error) {
	l, err := lock.New(redislock.New(rdb, opts...), lock.WithTTL(ttl))
	return fenced{l}, err
}

// onOwn closes its client, too.
type onOwn struct {
	fenced
	rdb *redis.Client
}

func (o onOwn) close() error { return joinClose(o.fenced.close(), o.rdb.Close) }

func (f fenced) turn(ctx context.Context, name string) error {
	lease, err := f.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

func (f fenced) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	lease, err := f.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (f fenced) close() error { return f.Close(context.Background()) }

// client is a locker with a connection pool of its own: as another process.
type client struct {
	locker
	rdb *redis.Client
}

// open returns a client of the library. Its connection and scripts are warm.
func (s *server) open(ctx context.Context, lib library) (*client, error) {
	rdb, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &client{rdb: rdb}
	if c.locker, err = lib.open(rdb); err != nil {
		return nil, joinClose(fmt.Errorf("%s: %w", lib.name, err), rdb.Close)
	}
	if err := c.turn(ctx, "bench/warm/"+uuid.NewString()); err != nil {
		return nil, joinClose(fmt.Errorf("%s: %w", lib.name, err), c.close)
	}
	return c, nil
}

func (c *client) close() error { return joinClose(c.locker.close(), c.rdb.Close) }
