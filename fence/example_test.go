package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// A claim travels in the context; what comes back is told apart by its verdict.
func Example() {
	ctx := fence.NewContext(context.Background(), fence.Claim{Resource: "auction/7", Token: 33})

	claim, _ := fence.ForResource(ctx, "auction/7")
	err := error(&fence.RejectedError{Claim: claim, Mark: 34, Verdict: fence.ErrStale}) // as a guard would say

	var rejected *fence.RejectedError
	if errors.As(err, &rejected) && errors.Is(err, fence.ErrStale) {
		fmt.Println("overtaken by", rejected.Mark)
	}
	fmt.Println(err)
	// Output:
	// overtaken by 34
	// fence: stale: auction/7 token 33 holder none refused, the mark is 34
}
