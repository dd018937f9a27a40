package memguard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
)

// A holder that was paused writes late, under a token that is no longer the newest.
func Example() {
	ctx, g := context.Background(), memguard.New()
	highest := 0
	bid := func(c fence.Claim, amount int) error {
		return g.Do(ctx, c, func(context.Context) error {
			highest = amount
			return nil
		})
	}
	paused := fence.Claim{Resource: "auction/7", Token: 33, Holder: uuid.New()}
	newer := fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()}

	fmt.Println("34:", bid(newer, 120))
	err := bid(paused, 110)
	fmt.Println("33 is stale:", errors.Is(err, fence.ErrStale))
	fmt.Println("highest:", highest)
	// Output:
	// 34: <nil>
	// 33 is stale: true
	// highest: 120
}
