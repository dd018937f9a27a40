package main

import (
	"context"
	"errors"
	"time"

	peer "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

var (
	redislockOnce = library{"redislock", openRedislock(0)} // does not wait
	redislock10   = library{"redislock, every 10 ms", openRedislock(10 * time.Millisecond)}
	redislock100  = library{"redislock, every 100 ms", openRedislock(100 * time.Millisecond)}
	redsyncs      = library{"redsync", openRedsync}
	rueidislocks  = library{"rueidislock", openRueidislock}
)

// polling is bsm/redislock with its linear strategy.
type polling struct {
	*peer.Client
	options *peer.Options
}

func openRedislock(every time.Duration) func(*redis.Client) (locker, error) {
	return func(rdb *redis.Client) (locker, error) {
		return polling{peer.New(rdb), &peer.Options{RetryStrategy: peer.LinearBackoff(every)}}, nil
	}
}

func (p polling) turn(ctx context.Context, name string) error {
	held, err := p.Obtain(ctx, "redislock:"+name, ttl, nil)
	if err != nil {
		return err
	}
	return held.Release(ctx)
}

func (p polling) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	held, err := p.Obtain(ctx, "redislock:"+name, ttl, p.options)
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

func (polling) close() error { return nil }

// quorum is redsync on one server, with its default tries and delays.
type quorum struct{ *redsync.Redsync }

func openRedsync(rdb *redis.Client) (locker, error) {
	return quorum{redsync.New(goredis.NewPool(rdb))}, nil
}

func (q quorum) turn(ctx context.Context, name string) error {
	m := q.mutex(name)
	if err := m.TryLockContext(ctx); err != nil {
		return err
	}
	_, err := m.UnlockContext(ctx)
	return err
}

func (q quorum) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	m := q.mutex(name)
	for {
		err := m.LockContext(ctx)
		var taken *redsync.ErrTaken
		switch {
		case err == nil:
			return func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken):
			return nil, err
		}
		// It has given up after 32 tries; its user has not.
	}
}

func (q quorum) mutex(name string) *redsync.Mutex {
	return q.NewMutex("redsync:"+name, redsync.WithExpiry(ttl))
}

func (quorum) close() error { return nil }

// pushed is rueidislock with its defaults, on a client of its own kind. What it releases is gone some time after the call.
type pushed struct{ rueidislock.Locker }

func openRueidislock(rdb *redis.Client) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{rdb.Options().Addr}, SelectDB: rdb.Options().DB},
		KeyPrefix:    "rueidislock",
		KeyValidity:  ttl,
	})
	if err != nil {
		return nil, err
	}
	return pushed{l}, nil
}

func (p pushed) turn(ctx context.Context, name string) error {
	_, release, err := p.TryWithContext(ctx, name)
	if err != nil {
		return err
	}
	release()
	return nil
}

func (p pushed) acquire(ctx context.Context, name string) (func(context.Context) error, error) {
	_, release, err := p.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { release(); return nil }, nil
}

func (p pushed) close() error {
	p.Close()
	return nil
}
