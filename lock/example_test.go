package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/memlock"
)

// A lease is acquired, its claim goes with the write, and a holder that was overtaken is refused.
func Example() {
	ctx := context.Background()
	guard := memguard.New() // beside the protected data
	locker, err := lock.New(memlock.New())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)

	paused, err := locker.Acquire(ctx, "auction/7", lock.WithTTL(20*time.Millisecond), lock.WithoutRenewal())
	if err != nil {
		log.Fatal(err)
	}
	successor, err := locker.Acquire(ctx, "auction/7") // gets in when the lease of the first has expired
	if err != nil {
		log.Fatal(err)
	}
	defer successor.Release(ctx)

	write := func(lease *lock.Lease, bid int) error {
		return guard.Do(ctx, lease.Claim(), func(context.Context) error {
			fmt.Println("wrote", bid)
			return nil
		})
	}
	fmt.Println("successor:", write(successor, 120))
	fmt.Println("paused:", errors.Is(write(paused, 110), fence.ErrStale))
	// Output:
	// wrote 120
	// successor: <nil>
	// paused: true
}

// Once across all servers, and not again within a minute, however soon it is done.
func ExampleLocker_Do() {
	ctx := context.Background()
	locker, err := lock.New(memlock.New(), lock.WithTTL(time.Minute), lock.WithMinHold(time.Minute), lock.WithoutWaiting())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	report := func(context.Context, *lock.Lease) error {
		fmt.Println("tonight's report")
		return nil
	}
	for range 3 {
		if err := locker.Do(ctx, "report", report); err != nil && !errors.Is(err, lock.ErrHeld) {
			log.Fatal(err)
		}
	}
	// Output: tonight's report
}

// With a seal the claim is admitted before the lease is handed out: nobody older can write any more.
func ExampleWithSeal() {
	ctx := context.Background()
	guard := memguard.New()
	locker, err := lock.New(memlock.New(), lock.WithSeal(guard))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	lease, err := locker.Acquire(ctx, "auction/7")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	older := lease.Claim()
	older.Token--
	fmt.Println(errors.Is(guard.Admit(ctx, older), fence.ErrStale))
	// Output: true
}
