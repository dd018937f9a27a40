package main

import (
	"context"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// The targets. That of goroutines is O(1): goroutinesLimit is what a Locker's few, and those of requests
// under way, don't exceed however many leases there are.
const (
	cpuLimit        = 5 // percent of a core
	goroutinesLimit = 20
)

// upkeep is what living leases cost.
type upkeep struct {
	goroutinesBefore int
	goroutinesMost   int           // at any look during the window
	window           time.Duration // of watching
	cpu              time.Duration // of this process in it
	renewals         int64         // scripts that Redis ran in it
	alive            int           // leases in Redis at its end
	leastLeft        time.Duration // of their time to live
}

// measureLeases holds leases on one Locker and watches it renew them.
func measureLeases(ctx context.Context, b *bench) (u upkeep, err error) {
	rdb, err := b.connect(ctx)
	if err != nil {
		return u, err
	}
	defer func() { err = joinClose(err, rdb.Close) }()
	locker, err := openRingfence(rdb, b.leaseTTL)
	if err != nil {
		return u, err
	}
	defer func() { err = joinClose(err, locker.close) }()
	u.goroutinesBefore = runtime.NumGoroutine()

	names := make([]string, b.leases)
	for i := range names {
		names[i] = "bench/lease/" + strconv.Itoa(i)
	}
	group, acquiring := errgroup.WithContext(ctx)
	group.SetLimit(manyClients)
	for _, name := range names {
		group.Go(func() error {
			_, err := locker.TryAcquire(acquiring, name)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return u, err
	}
	if err := u.watch(ctx, b); err != nil {
		return u, err
	}
	return u, u.count(ctx, rdb, names)
}

// watch looks at this process and at Redis for the window.
func (u *upkeep) watch(ctx context.Context, b *bench) error {
	const often = 100 * time.Millisecond
	runtime.GC() // that of the acquires
	before, err := b.commands(ctx)
	if err != nil {
		return err
	}
	start, busy := time.Now(), cpuTime()
	for time.Since(start) < b.leaseWindow {
		if err := pause(ctx, often); err != nil {
			return err
		}
		u.goroutinesMost = max(u.goroutinesMost, runtime.NumGoroutine())
	}
	u.window, u.cpu = time.Since(start), cpuTime()-busy
	after, err := b.commands(ctx)
	if err != nil {
		return err
	}
	for _, command := range []string{"evalsha", "eval"} {
		u.renewals += after[command] - before[command]
	}
	return nil
}

// count looks which leases there are.
func (u *upkeep) count(ctx context.Context, rdb *redis.Client, names []string) error {
	left := make([]*redis.DurationCmd, len(names))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			left[i] = p.PTTL(ctx, "lock:"+name)
		}
		return nil
	})
	for _, l := range left {
		if d := l.Val(); d > 0 {
			if u.alive++; u.alive == 1 || d < u.leastLeft {
				u.leastLeft = d
			}
		}
	}
	return err
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it fails for bad arguments only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func reportLeases(ctx context.Context, b *bench) error {
	b.printf("%d leases with a TTL of %v on one Locker, watched for %v\n", b.leases, b.leaseTTL, b.leaseWindow)
	u, err := measureLeases(ctx, b)
	if err != nil {
		return err
	}
	more := u.goroutinesMost - u.goroutinesBefore
	b.printf("goroutines          %d before, %d with them\n", u.goroutinesBefore, u.goroutinesMost)
	b.printf("renewals in Redis   %d, %.2f per lease\n", u.renewals, float64(u.renewals)/float64(b.leases))
	b.printf("leases in Redis     %d, the one nearest to its end has %v left\n", u.alive, short(u.leastLeft))
	b.atMost("goroutines more", float64(more), goroutinesLimit, "")
	b.atMost("CPU of this process", 100*u.cpu.Seconds()/u.window.Seconds(), cpuLimit, " % of a core")
	b.atLeast("leases alive at the end", float64(u.alive), float64(b.leases), "")
	return nil
}
