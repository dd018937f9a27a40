package redislock_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

// BenchmarkTurn compares acquire + release with the two bare commands SET NX PX + DEL, for one client
// and for 32, each on a key of its own.
func BenchmarkTurn(b *testing.B) {
	server := testenv.Redis(b)
	o, err := redis.ParseURL(server.URL())
	require.NoError(b, err)
	o.ContextTimeoutEnabled = true // see New
	rdb := redis.NewClient(o)
	b.Cleanup(func() { _ = rdb.Close() })
	locker, err := lock.New(redislock.New(rdb))
	require.NoError(b, err)
	b.Cleanup(func() { _ = locker.Close(context.Background()) })
	prefix := server.Prefix(b)

	bare := func(ctx context.Context, name string) error {
		if err := rdb.SetArgs(ctx, "lock:"+name, uuid.NewString(), redis.SetArgs{Mode: "NX", TTL: 30 * time.Second}).Err(); err != nil {
			return err
		}
		return rdb.Del(ctx, "lock:"+name).Err()
	}
	fenced := func(ctx context.Context, name string) error {
		lease, err := locker.TryAcquire(ctx, name)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	for _, clients := range []int{1, 32} {
		for _, way := range []struct {
			name string
			turn func(context.Context, string) error
		}{{"bare", bare}, {"ringfence", fenced}} {
			b.Run(way.name+"/clients="+strconv.Itoa(clients), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism((clients + 1) / 2)                        // times GOMAXPROCS, 2 on the machine that counts
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour) // one that can be cancelled only takes a goroutine a call
				defer cancel()
				if clients == 1 {
					for b.Loop() {
						if err := way.turn(ctx, prefix+"one"); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				var id atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					name := prefix + strconv.FormatInt(id.Add(1), 10)
					for pb.Next() {
						if err := way.turn(ctx, name); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkRenew compares the renewal of 512 leases with the bare pipeline of scripts that it is.
func BenchmarkRenew(b *testing.B) {
	server := testenv.Redis(b)
	rdb := client(b, server.URL())
	d := redislock.New(rdb)
	rs := make([]driver.Renewal, 512)
	for i := range rs {
		r := driver.Request{Resource: server.Prefix(b) + strconv.Itoa(i), Holder: uuid.New(), TTL: time.Minute}
		g, err := d.Acquire(b.Context(), r)
		require.NoError(b, err)
		rs[i] = driver.Renewal{Claim: fence.Claim{Resource: r.Resource, Token: g.Token, Holder: r.Holder}, TTL: time.Minute}
	}
	script := redis.NewScript("return 1")
	require.NoError(b, script.Load(b.Context(), rdb).Err())
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pipe := rdb.Pipeline()
			for _, r := range rs {
				script.EvalSha(b.Context(), pipe, []string{r.Claim.Resource, r.Claim.Resource}, r.Claim.Holder.String(), 60000, 0, 86400000)
			}
			if _, err := pipe.Exec(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ringfence", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range d.Renew(b.Context(), rs) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
