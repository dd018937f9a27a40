package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// pause is a plan: whoever processes the bid Victim is stopped between its read and its write, and goes
// on once Top, or another bid as high, has been written. Both are places in the bids.
type pause struct{ Victim, Top int }

// choosePauses plans up to n pauses, by chance. There are fewer if the bids have no room for more.
//
// A victim is higher than all earlier bids on its auction, so it will want to write whatever order the
// processors work in; Top is the next bid on the auction that is higher still. Pauses don't overlap, so
// that one processor at most stands still, and the bids up to Top are dealt out meanwhile.
//
// Pauses whose Top is the auction's highest bid go first: what such a victim destroys when there is no
// guard, no later bid can mend. So one pause is enough for certain damage.
func choosePauses(bids []bid, n int, chance *rand.Rand) []pause {
	var last, earlier []pause
	for _, steps := range risingSteps(bids) {
		for i := 1; i < len(steps); i++ {
			p := pause{Victim: steps[i-1], Top: steps[i]}
			if i == len(steps)-1 {
				last = append(last, p)
			} else {
				earlier = append(earlier, p)
			}
		}
	}
	shuffle := func(ps []pause) { chance.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] }) }
	shuffle(last)
	shuffle(earlier)

	var chosen []pause
	for _, p := range slices.Concat(last, earlier) {
		overlaps := func(q pause) bool { return p.Victim <= q.Top && q.Victim <= p.Top }
		if len(chosen) < n && !slices.ContainsFunc(chosen, overlaps) {
			chosen = append(chosen, p)
		}
	}
	slices.SortFunc(chosen, func(a, b pause) int { return cmp.Compare(a.Victim, b.Victim) })
	return chosen
}

// risingSteps returns, for each auction in the order of auctionsOf, the places of the bids that are
// higher than all earlier ones.
func risingSteps(bids []bid) [][]int {
	steps := map[string][]int{}
	for i, b := range bids {
		s := steps[b.Auction]
		if len(s) == 0 || b.Amount > bids[s[len(s)-1]].Amount {
			steps[b.Auction] = append(s, i)
		}
	}
	var all [][]int
	for _, auction := range auctionsOf(bids) {
		all = append(all, steps[auction])
	}
	return all
}
