package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// The targets.
const (
	turnLimit        = 1.15 // times the bare commands
	overRedislock    = 1.5  // times its throughput, with many clients
	overRedsync      = 2
	allocationsLimit = 40 // per turn
	manyClients      = 32
)

// turns are what one library did, a value for each round.
type turns struct {
	perSecond   []float64
	allocations []float64 // of the whole process, per turn
}

// measureTurns has the libraries take turns at taking turns: a round is a short time for each of them, in
// an order that rotates, so that what disturbs the machine disturbs all of them. All share one client,
// as goroutines of one process; each goroutine has a key of its own.
func measureTurns(ctx context.Context, b *bench, clients int, libs []library) (_ []turns, err error) {
	rdb, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = joinClose(err, rdb.Close) }()
	results := make([]turns, len(libs))
	lockers := make([]locker, len(libs))
	for i, lib := range libs {
		if lockers[i], err = lib.open(rdb); err != nil {
			return nil, fmt.Errorf("%s: %w", lib.name, err)
		}
		defer func() { err = joinClose(err, lockers[i].close) }()
	}
	names := make([]string, clients)
	for i := range names {
		names[i] = "bench/turn/" + strconv.Itoa(i)
	}
	each := b.series / time.Duration(b.rounds)
	for round := -1; round < b.rounds; round++ { // the first is to warm up
		for n := range libs {
			i := (max(round, 0) + n) % len(libs)
			perSecond, allocations, err := turnFor(ctx, each, lockers[i], names)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", libs[i].name, err)
			}
			if round >= 0 {
				results[i].perSecond = append(results[i].perSecond, perSecond)
				results[i].allocations = append(results[i].allocations, allocations)
			}
		}
	}
	return results, nil
}

func turnFor(ctx context.Context, d time.Duration, l locker, names []string) (perSecond, allocations float64, err error) {
	counts := make([]int, len(names))
	group, turning := errgroup.WithContext(ctx)
	var before, after runtime.MemStats
	runtime.GC() // no library pays for the garbage of the one before
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i, name := range names {
		group.Go(func() error {
			for time.Since(start) < d {
				if err := l.turn(turning, name); err != nil {
					return err
				}
				counts[i]++
			}
			return nil
		})
	}
	err = group.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / took.Seconds(), float64(after.Mallocs-before.Mallocs) / float64(max(total, 1)), err
}

func reportTurns(ctx context.Context, b *bench) error {
	libs := []library{bareCommands, ringfence, redislockOnce, redsyncs, byDefault, rueidislocks}
	for _, clients := range []int{1, manyClients} {
		results, err := measureTurns(ctx, b, clients, libs)
		if err != nil {
			return err
		}
		b.printf("%d at a time, each on a key of its own, one go-redis client; medians of %d interleaved rounds of %v\n",
			clients, b.rounds, b.series/time.Duration(b.rounds))
		rows := [][]string{{"", "turns/s", "us/turn", "x bare", "half of the rounds", "allocations"}}
		for i, lib := range libs {
			perSecond := median(results[i].perSecond)
			times := ratios(results[0].perSecond, results[i].perSecond)
			rows = append(rows, []string{
				lib.name, fmt.Sprintf("%.0f", perSecond), fmt.Sprintf("%.1f", 1e6/perSecond),
				fmt.Sprintf("%.2f", median(times)), fmt.Sprintf("%.2f-%.2f", percentile(times, 25), percentile(times, 75)),
				fmt.Sprintf("%.1f", median(results[i].allocations)),
			})
		}
		b.table(rows...)
		mine := results[1]
		b.atMost("time of the bare commands", median(ratios(results[0].perSecond, mine.perSecond)), turnLimit, "x")
		if clients == 1 {
			b.atMost("allocations", median(mine.allocations), allocationsLimit, "")
			continue
		}
		b.atLeast("throughput of redislock", median(ratios(mine.perSecond, results[2].perSecond)), overRedislock, "x")
		b.atLeast("throughput of redsync", median(ratios(mine.perSecond, results[3].perSecond)), overRedsync, "x")
	}
	return nil
}
