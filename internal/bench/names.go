package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/lock/redislock"
)

const keysLimit = 0 // left after the idle time, the target

// patience is how long after the idle time Redis may take to remove what has expired: it does so with
// a part of its time only.
const patience = time.Minute

// remains are what names used once leave in Redis.
type remains struct {
	keysMost, keysLeft               int64
	memoryBefore, memoryMost, memory int64 // bytes
	took, cleared                    time.Duration
}

// measureNames acquires and releases each of many names once, with a short idle time of the counters,
// and waits until Redis is as empty as before, or for patience after the idle time.
func measureNames(ctx context.Context, b *bench) (r remains, err error) {
	rdb, err := b.connect(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = joinClose(err, rdb.Close) }()
	locker, err := openRingfence(rdb, b.nameTTL, redislock.IdleTime(b.idle))
	if err != nil {
		return r, err
	}
	defer func() { err = joinClose(err, locker.close) }()

	if r.memoryBefore, err = b.usedMemory(ctx); err != nil {
		return r, err
	}
	look := func(ctx context.Context) error {
		var err error
		if r.keysLeft, err = b.admin.DBSize(ctx).Result(); err != nil {
			return err
		}
		r.keysMost = max(r.keysMost, r.keysLeft)
		r.memory, err = b.usedMemory(ctx)
		r.memoryMost = max(r.memoryMost, r.memory)
		return err
	}

	const often = 250 * time.Millisecond
	var next, used atomic.Int64
	group, using := errgroup.WithContext(ctx)
	start := time.Now()
	for range manyClients {
		group.Go(func() error {
			for n := next.Add(1); n <= int64(b.names); n = next.Add(1) {
				if err := locker.turn(using, "bench/name/"+strconv.FormatInt(n, 10)); err != nil {
					return err
				}
				used.Add(1)
			}
			return nil
		})
	}
	group.Go(func() error {
		for used.Load() < int64(b.names) {
			if err := errors.Join(look(using), pause(using, often)); err != nil {
				return err
			}
		}
		return look(using)
	})
	if err := group.Wait(); err != nil {
		return r, err
	}
	r.took = time.Since(start)
	// The counter lives on for the TTL and the idle time.
	limit := b.nameTTL + b.idle + patience
	for start = time.Now(); r.keysLeft > 0 && time.Since(start) < limit; {
		if err := errors.Join(pause(ctx, often), look(ctx)); err != nil {
			return r, err
		}
	}
	r.cleared = time.Since(start)
	return r, nil
}

func reportNames(ctx context.Context, b *bench) error {
	b.printf("%d names, each acquired and released once; counters idle for %v (by default 24h) expire\n", b.names, b.idle)
	r, err := measureNames(ctx, b)
	if err != nil {
		return err
	}
	const mb = 1 << 20
	b.printf("used in             %v\n", short(r.took))
	b.printf("most keys           %d, memory %.1f MB more than before\n", r.keysMost, float64(r.memoryMost-r.memoryBefore)/mb)
	b.printf("%-18s  %d keys, memory %.1f MB more than before\n", short(r.cleared)+" after", r.keysLeft, float64(r.memory-r.memoryBefore)/mb)
	b.atMost("keys left", float64(r.keysLeft), keysLimit, "")
	return nil
}
