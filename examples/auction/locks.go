package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock/redislock"
)

// lockAddress says where the leases are.
type lockAddress struct {
	URL   string `json:"url"`
	Plain bool   `json:"plain"` // count tokens 1, 2, 3 ...
}

// embeddedLocks starts a Redis in this process. It is fresh, and goes with the process, so tokens may
// be plain counts, which are good to read.
func embeddedLocks() (a lockAddress, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // by itself its keys would never expire
	if err := m.Start(); err != nil {
		return lockAddress{}, nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	return lockAddress{URL: "redis://" + m.Addr() + "/0", Plain: true}, m.Close, nil
}

// client returns a client of the leases' Redis.
func (a lockAddress) client() (*redis.Client, error) {
	o, err := redis.ParseURL(a.URL)
	if err != nil {
		var inURL *url.Error // shows the whole URL, password and all
		if errors.As(err, &inURL) {
			err = inURL.Err
		}
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), nil
}

func (a lockAddress) driver(rdb *redis.Client) *redislock.Driver {
	if a.Plain {
		return redislock.New(rdb, redislock.PlainCounter())
	}
	return redislock.New(rdb)
}

// connectWithin bounds how long a server may take to answer at the start.
const connectWithin = 5 * time.Second

// reach returns nil if the server of the leases answers, and what to call it.
func (a lockAddress) reach(ctx context.Context) (name string, err error) {
	rdb, err := a.client()
	if err != nil {
		return "", fmt.Errorf("-redis: %w", err)
	}
	defer func() { _ = rdb.Close() }()
	name = rdb.Options().Addr
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return "", fmt.Errorf("the Redis at %s does not answer: %w", name, err)
	}
	return name, nil
}
