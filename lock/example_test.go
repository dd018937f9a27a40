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

// A lease is acquired when its turn comes, renews itself while the work lasts, and is released.
func ExampleLocker_Acquire() {
	ctx := context.Background()
	locker, err := lock.New(memlock.New())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)

	waiting, cancel := context.WithTimeout(ctx, 5*time.Second) // for its turn; not for the work
	defer cancel()
	lease, err := locker.Acquire(waiting, "auction/7", lock.WithTTL(10*time.Second))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Println("somebody else has it")
		return
	case err != nil:
		log.Print(err)
		return
	}
	defer lease.Release(ctx)
	claim, _ := fence.FromContext(lease.Context()) // middleware.NewTransport sends it along
	fmt.Println(claim.Resource)
	_, err = locker.TryAcquire(ctx, "auction/7")
	fmt.Println(errors.Is(err, lock.ErrHeld))
	// Output:
	// auction/7
	// true
}

// Both accounts or none, in whatever order they are named.
func ExampleLocker_AcquireAll() {
	ctx := context.Background()
	locker, err := lock.New(memlock.New())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(ctx)
	set, err := locker.AcquireAll(ctx, []string{"account/9", "account/4"})
	if err != nil {
		log.Print(err)
		return
	}
	defer set.Release(ctx)
	for _, claim := range set.Claims() {
		fmt.Println(claim.Resource)
	}
	// Output:
	// account/4
	// account/9
}

// A seat is held from one request to the next, on whatever server that arrives.
func ExampleLocker_Resume() {
	ctx := context.Background()
	keyring, err := fence.NewKeyring(fence.Key{ID: "2026", Secret: []byte("32 random bytes, from a secret store")})
	if err != nil {
		log.Fatal(err)
	}
	store := memlock.New()

	choose := func() (cookie string, err error) { // POST /seats/12
		locker, err := lock.New(store)
		if err != nil {
			return "", err
		}
		defer locker.Close(ctx) // does not end what is detached
		lease, err := locker.TryAcquire(ctx, "seat/12", lock.WithTTL(10*time.Minute), lock.WithoutRenewal())
		if err != nil {
			return "", err
		}
		until := lease.Deadline()
		return keyring.Encode(lease.Detach(), until), nil
	}
	pay := func(cookie string) error { // POST /checkout
		locker, err := lock.New(store)
		if err != nil {
			return err
		}
		defer locker.Close(ctx)
		claim, err := keyring.Decode(cookie)
		if err != nil {
			return err // edited, or expired
		}
		lease, err := locker.Resume(ctx, claim)
		if err != nil {
			return err // a double click, or too late
		}
		defer lease.Release(ctx)
		fmt.Println("paid for", lease.Resource())
		return nil
	}

	cookie, err := choose()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pay(cookie))
	fmt.Println(errors.Is(pay(cookie), lock.ErrLost))
	// Output:
	// paid for seat/12
	// <nil>
	// true
}

// A job on many servers runs once a minute, however soon it ends and however wrong their clocks are.
func ExampleWithMinHold() {
	ctx := context.Background()
	store := memlock.New()
	job := func(server string) {
		locker, err := lock.New(store, lock.WithTTL(time.Minute), lock.WithMinHold(50*time.Second), lock.WithoutWaiting())
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close(ctx)
		err = locker.Do(ctx, "report", func(context.Context, *lock.Lease) error {
			fmt.Println("the report, by", server)
			return nil
		})
		if err != nil && !errors.Is(err, lock.ErrHeld) {
			log.Print(err)
		}
	}
	job("one")
	job("two")
	job("three")
	// Output: the report, by one
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
