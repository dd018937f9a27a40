package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// server is the Redis that all parts use.
type server struct {
	options *redis.Options
	own     bool // we started it
	admin   *redis.Client
	close   func() error
}

// startServer starts a server, or takes the one that the URL names.
func startServer(ctx context.Context, url string) (_ *server, err error) {
	stop := func() error { return nil }
	own := url == ""
	if own {
		if url, stop, err = startRedis(); err != nil {
			return nil, err
		}
	}
	s, err := openServer(ctx, url)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	s.own = own
	s.close = func() error { return errors.Join(s.admin.Close(), stop()) }
	return s, nil
}

// openServer is a server that runs.
func openServer(ctx context.Context, url string) (*server, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("-redis: %w", err)
	}
	s := &server{options: o}
	if s.admin, err = s.connect(ctx); err != nil {
		return nil, err
	}
	s.close = s.admin.Close
	keys, err := s.admin.DBSize(ctx).Result()
	if err == nil && keys > 0 {
		err = fmt.Errorf("-redis: database %d at %s has %d keys: want an empty one", o.DB, o.Addr, keys)
	}
	if err != nil {
		return nil, joinClose(err, s.close)
	}
	return s, nil
}

// empty removes what a part has left, so that the next one meets the same server. The database was empty
// when we came.
func (s *server) empty(ctx context.Context) error { return s.admin.FlushDB(ctx).Err() }

// connect returns a client of its own, as another process would have: go-redis's default settings, but for one.
func (s *server) connect(ctx context.Context) (*redis.Client, error) {
	o := *s.options
	o.ContextTimeoutEnabled = true // for all: see redislock.New
	rdb := redis.NewClient(&o)
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("reach Redis at %s: %w", o.Addr, err), rdb.Close())
	}
	return rdb, nil
}
