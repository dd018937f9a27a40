package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The targets.
const (
	p99WaitLimit     = 120 // ms
	longestWaitLimit = 200 // ms
	evennessLimit    = 0.95
	commandsLimit    = 20 // per acquisition

	contenders = 16
	hold       = 5 * time.Millisecond
)

// contention is how clients shared one resource.
type contention struct {
	took     time.Duration
	waits    []time.Duration // of those who got it, sorted
	longest  time.Duration   // also of those who were still waiting at the end
	served   []int           // by client
	commands float64         // that Redis carried out per acquisition, those inside scripts too
}

// measureContention has clients that are as good as processes - each has its own connections and
// locker - acquire one resource over and over for d. Two holders at once are an error.
func measureContention(ctx context.Context, b *bench, lib library, clients int, d time.Duration) (_ contention, err error) {
	c := contention{served: make([]int, clients)}
	members := make([]*client, clients)
	for i := range members {
		if members[i], err = b.open(ctx, lib); err != nil {
			return c, err
		}
		defer func() { err = joinClose(err, members[i].close) }()
	}
	before, err := b.commands(ctx)
	if err != nil {
		return c, err
	}
	var (
		name   = "bench/contended/" + strconv.FormatInt(time.Now().UnixNano(), 36)
		inside atomic.Int32
		waits  = make([][]time.Duration, clients)
		last   = make([]time.Duration, clients) // the wait that the end cut off
		start  = time.Now()
		end    = start.Add(d)
	)
	group, running := errgroup.WithContext(ctx)
	waiting, cancel := context.WithDeadline(running, end)
	defer cancel()
	for i, member := range members {
		group.Go(func() error {
			for time.Now().Before(end) {
				asked := time.Now()
				release, err := member.acquire(waiting, name)
				wait := time.Since(asked)
				if err != nil {
					last[i] = wait
					if waiting.Err() != nil || !time.Now().Before(end) {
						break
					}
					return err
				}
				if inside.Add(1) != 1 {
					return fmt.Errorf("two holders at once")
				}
				if time.Now().Before(end) {
					waits[i] = append(waits[i], wait)
				}
				time.Sleep(hold)
				inside.Add(-1)
				if err := release(running); err != nil {
					return fmt.Errorf("release: %w", err)
				}
			}
			return running.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return c, fmt.Errorf("%s: %w", lib.name, err)
	}
	c.took = d
	for i := range waits {
		c.served[i] = len(waits[i])
		c.waits = append(c.waits, waits[i]...)
	}
	after, err := b.commands(ctx)
	if err != nil {
		return c, err
	}
	c.commands = float64(after.total()-before.total()) / float64(max(len(c.waits), 1))
	slices.Sort(c.waits)
	c.longest = max(percentile(c.waits, 100), slices.Max(last))
	return c, nil
}

func reportContended(ctx context.Context, b *bench) error {
	d := 2 * b.series
	b.printf("%d clients as different processes, one key, held for %v, %v for each library; a queue that loses no time waits %v\n",
		contenders, hold, d, (contenders-1)*hold)
	rows := [][]string{{"", "acquired/s", "wait p50", "p99", "longest", "least/most", "commands each"}}
	var mine contention
	for _, lib := range []library{ringfence, redislock10, redislock100, redsyncs, rueidislocks} {
		c, err := measureContention(ctx, b, lib, contenders, d)
		if err != nil {
			return err
		}
		if lib.name == ringfence.name {
			mine = c
		}
		rows = append(rows, []string{
			lib.name, fmt.Sprintf("%.1f", float64(len(c.waits))/c.took.Seconds()),
			short(percentile(c.waits, 50)), short(percentile(c.waits, 99)), short(c.longest),
			fmt.Sprintf("%d/%d", slices.Min(c.served), slices.Max(c.served)), fmt.Sprintf("%.1f", c.commands),
		})
	}
	b.table(rows...)
	b.atMost("p99 wait", milliseconds(percentile(mine.waits, 99)), p99WaitLimit, " ms")
	b.atMost("longest wait", milliseconds(mine.longest), longestWaitLimit, " ms")
	b.atLeast("least / most served", evenness(mine.served), evennessLimit, "")
	b.atMost("Redis commands per acquisition", mine.commands, commandsLimit, "")
	return nil
}
