// Quickstart raises the bid of auction 7 under a lease, and refuses to if the lease is no longer the
// newest. It wants REDIS_ADDR, DATABASE_URL, and the table that its test creates.
package main

import (
	"context"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

func main() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR"), ContextTimeoutEnabled: true})
	locker, err := lock.New(redislock.New(rdb))
	check(err)
	guard, err := pgguard.New(db)
	check(err)
	auctions := guard.Table(pgguard.Table{
		Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence", Holder: "fence_holder",
	})

	check(locker.Do(ctx, "auction/7", func(ctx context.Context, lease *lock.Lease) error {
		var bid int // read under the lease: the seal has shut older holders out
		if err := db.QueryRow(ctx, `SELECT bid FROM auctions WHERE id = 7`).Scan(&bid); err != nil {
			return err
		}
		return auctions.Update(ctx, lease.Claim(), 7, pgguard.Set{"bid": bid + 10})
	}, lock.WithSeal(auctions)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
