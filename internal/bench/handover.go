package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const handoverLimit = 4 // round trips, the target

// Before each measured moment nothing happens for a time between these: long enough for a waiter to be
// waiting, and not in step with the polls of those that poll.
const minSettle, maxSettle = 5 * time.Millisecond, 55 * time.Millisecond

func settle(ctx context.Context) error {
	return pause(ctx, minSettle+rand.N(maxSettle-minSettle))
}

// handovers are times from the call of Release to the next holder running, each beside a round trip.
type handovers struct {
	times []time.Duration
	pings []time.Duration
}

// measureHandover has two clients, as two processes, hand one resource to each other for d. A holder
// releases when the other is waiting, and asks again when the other has it. Round trips are measured
// in the same rhythm: after a pause a PING takes longer than in a burst of them, and so does a release.
func measureHandover(ctx context.Context, b *bench, lib library, d time.Duration) (h handovers, err error) {
	var members [2]*client
	for i := range members {
		if members[i], err = b.open(ctx, lib); err != nil {
			return h, err
		}
		defer func() { err = joinClose(err, members[i].close) }()
	}
	type grant struct {
		at      time.Time
		release func(context.Context) error
		err     error
	}
	name := "bench/handover/" + strconv.FormatInt(time.Now().UnixNano(), 36)
	release, err := members[0].acquire(ctx, name)
	if err != nil {
		return h, fmt.Errorf("%s: %w", lib.name, err)
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	for holder := 0; time.Since(start) < d; holder = 1 - holder {
		next := make(chan grant, 1)
		go func() {
			release, err := members[1-holder].acquire(waiting, name)
			next <- grant{time.Now(), release, err}
		}()
		ping, released, err := releaseWaited(ctx, members[holder], release)
		if err != nil {
			cancel()
			<-next
			return h, fmt.Errorf("%s: %w", lib.name, err)
		}
		g := <-next
		switch {
		case g.err != nil:
			return h, fmt.Errorf("%s: %w", lib.name, g.err)
		case g.at.Before(released):
			return h, fmt.Errorf("%s: two holders at once", lib.name)
		}
		h.times = append(h.times, g.at.Sub(released))
		h.pings = append(h.pings, ping)
		release = g.release
	}
	return h, release(ctx)
}

// releaseWaited times a PING and then releases, each after a pause. released is when the release began.
func releaseWaited(ctx context.Context, holder *client, release func(context.Context) error) (ping time.Duration, released time.Time, err error) {
	if err := settle(ctx); err != nil {
		return 0, released, err
	}
	sent := time.Now()
	if err := holder.rdb.Ping(ctx).Err(); err != nil {
		return 0, released, err
	}
	ping = time.Since(sent)
	if err := settle(ctx); err != nil {
		return 0, released, err
	}
	released = time.Now()
	return ping, released, release(ctx)
}

func reportHandover(ctx context.Context, b *bench) error {
	d := 2 * b.series
	b.printf("two clients as different processes, one waiting, %v for each library; a round trip is a PING in the same rhythm\n", d)
	rows := [][]string{{"", "p50", "p99", "round trip p50", "p50 in round trips", "p99 in them"}}
	var mine float64
	for _, lib := range []library{ringfence, redislock10, redislock100, redsyncs, rueidislocks} {
		h, err := measureHandover(ctx, b, lib, d)
		if err != nil {
			return err
		}
		ping := percentile(h.pings, 50)
		p50, p99 := percentile(h.times, 50), percentile(h.times, 99)
		inPings := float64(p50) / float64(ping)
		if lib.name == ringfence.name {
			mine = inPings
		}
		rows = append(rows, []string{
			lib.name, short(p50), short(p99), short(ping),
			fmt.Sprintf("%.1f", inPings), fmt.Sprintf("%.1f", float64(p99)/float64(ping)),
		})
	}
	b.table(rows...)
	b.atMost("hand-over p50", mine, handoverLimit, " round trips")
	return nil
}
