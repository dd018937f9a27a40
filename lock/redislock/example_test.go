package redislock_test

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/redislock"
)

func Example() {
	ctx := context.Background()
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}})
	defer rdb.Close()
	locker, err := lock.New(redislock.New(rdb))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)

	lease, err := locker.Acquire(ctx, "auction/7")
	if err != nil {
		log.Print(err)
		return
	}
	defer lease.Release(ctx)
	log.Print("holding ", lease.Claim(), " until ", lease.Deadline())
}
