package main

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// some is bids of a few people on a few auctions.
func some(t *rapid.T) []bid {
	n := rapid.IntRange(0, 60).Draw(t, "bids")
	bids := make([]bid, n)
	for i := range bids {
		bids[i] = bid{
			Line: i + 1, Bidder: rapid.SampledFrom([]string{"ann", "bob", "cat"}).Draw(t, "bidder"),
			Auction: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "auction"), Amount: rapid.Int64Range(1, 40).Draw(t, "amount"),
		}
	}
	return bids
}

func TestChoosePauses_Property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bids := some(t)
		n := rapid.IntRange(0, 8).Draw(t, "pauses")
		plan := choosePauses(bids, n, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if len(plan) > n {
			t.Fatalf("%d pauses, wanted %d", len(plan), n)
		}
		certain, possible := false, false
		best := highestBids(bids)
		for i, p := range plan {
			victim, top := bids[p.Victim], bids[p.Top]
			if p.Victim >= p.Top || victim.Auction != top.Auction || victim.Amount >= top.Amount {
				t.Fatalf("%+v: %+v, %+v", p, victim, top)
			}
			for _, earlier := range bids[:p.Victim] {
				if earlier.Auction == victim.Auction && earlier.Amount >= victim.Amount {
					t.Fatalf("%+v might find itself outbid by %+v", victim, earlier)
				}
			}
			if i > 0 && plan[i-1].Top >= p.Victim {
				t.Fatalf("%+v overlaps %+v", plan[i-1], p)
			}
			certain = certain || top.Amount == best[top.Auction][0].Amount
		}
		for _, steps := range risingSteps(bids) {
			possible = possible || len(steps) > 1
		}
		if n > 0 && certain != possible {
			t.Fatalf("a pause before an auction's highest bid: possible %v, planned %v", possible, certain)
		}
	})
}

func TestChoosePauses_SeedDecides(t *testing.T) {
	bids, _, err := readBids(bytes.NewReader(shippedBids), prefix)
	require.NoError(t, err)
	plan := func(seed uint64) []pause { return choosePauses(bids, 2, rand.New(rand.NewPCG(seed, 0))) }
	different := map[pause]bool{}
	for seed := range uint64(20) {
		assert.Equal(t, plan(seed), plan(seed))
		require.Len(t, plan(seed), 2)
		different[plan(seed)[0]] = true
	}
	assert.Greater(t, len(different), 1)
}

func TestChoosePauses_TheShippedBidsHaveRoom(t *testing.T) {
	bids, _, err := readBids(bytes.NewReader(shippedBids), prefix)
	require.NoError(t, err)
	for seed := range uint64(50) {
		assert.Len(t, choosePauses(bids, 20, rand.New(rand.NewPCG(seed, 0))), 20)
	}
}
