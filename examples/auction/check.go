package main

import (
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
)

// written is a bid that a processor reports to have written, and under which token.
type written struct {
	bid   bid
	token fence.Token
}

// wrongWinner is an auction whose row is not its highest bid.
type wrongWinner struct {
	Lost bid // the bid that should have won
	Row  standing
}

func (w wrongWinner) String() string {
	row := "its row has no bid at all"
	if w.Row.Amount > 0 {
		row = fmt.Sprintf("its row says %v, token %v", w.Row, w.Row.Token)
	}
	return fmt.Sprintf("auction %s has lost the bid of line %d, %v; %s", w.Lost.Auction, w.Lost.Line, w.Lost, row)
}

// check compares the rows with the input: an auction is won by the highest of its bids; of equal ones,
// by the one that was written first, which is the one with the lowest token.
func check(bids []bid, rows map[string]standing, writes []written) []wrongWinner {
	best := highestBids(bids)
	first := map[string]written{} // of the best
	for _, w := range writes {
		known, ok := first[w.bid.Auction]
		if slices.Contains(best[w.bid.Auction], w.bid) && (!ok || w.token < known.token) {
			first[w.bid.Auction] = w
		}
	}
	var wrong []wrongWinner
	for _, auction := range auctionsOf(bids) {
		row := rows[auction]
		winner, known := first[auction]
		switch {
		case known && row == standing{winner.bid.Bidder, winner.bid.Amount, winner.token}:
		case !known && slices.ContainsFunc(best[auction], row.is):
		case known:
			wrong = append(wrong, wrongWinner{winner.bid, row})
		default:
			wrong = append(wrong, wrongWinner{best[auction][0], row})
		}
	}
	return wrong
}

// highestBids returns for each auction the bids that none is higher than.
func highestBids(bids []bid) map[string][]bid {
	best := map[string][]bid{}
	for _, b := range bids {
		switch so := best[b.Auction]; {
		case len(so) == 0 || b.Amount > so[0].Amount:
			best[b.Auction] = []bid{b}
		case b.Amount == so[0].Amount:
			best[b.Auction] = append(so, b)
		}
	}
	return best
}
