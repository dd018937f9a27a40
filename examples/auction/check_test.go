package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCheck(t *testing.T) {
	ann, bob, cat, dan := bid{1, "7", "ann", 100}, bid{2, "7", "bob", 120}, bid{3, "7", "cat", 110}, bid{4, "7", "dan", 120}
	eve := bid{5, "8", "eve", 5}
	bids := []bid{ann, bob, cat, dan, eve}
	right := standing{"eve", 5, 1}
	annWrote, bobWrote, catWrote, danWrote, eveWrote := written{ann, 1}, written{bob, 2}, written{cat, 3}, written{dan, 4}, written{eve, 1}
	all := []written{catWrote, bobWrote, annWrote, eveWrote}
	for _, row := range []struct {
		name   string
		row7   standing
		row8   standing
		writes []written
		want   []wrongWinner
	}{
		{"right", standing{"bob", 120, 2}, right, all, nil},
		{"overwritten by a lower one", standing{"cat", 110, 3}, right, all, []wrongWinner{{bob, standing{"cat", 110, 3}}}},
		{"overwritten, then mended by an equal one", standing{"dan", 120, 4}, right, append([]written{danWrote}, all...), []wrongWinner{{bob, standing{"dan", 120, 4}}}},
		{"the equal one came first", standing{"dan", 120, 4}, right, []written{annWrote, danWrote, eveWrote}, nil},
		{"the answer to the write was lost", standing{"bob", 120, 2}, right, []written{annWrote, eveWrote}, nil},
		{"somebody who never bid that", standing{"ann", 120, 2}, right, []written{annWrote, eveWrote}, []wrongWinner{{bob, standing{"ann", 120, 2}}}},
		{"no row", standing{}, right, []written{annWrote, eveWrote}, []wrongWinner{{bob, standing{}}}},
		{"two auctions", standing{"ann", 100, 1}, standing{}, all, []wrongWinner{{bob, standing{"ann", 100, 1}}, {eve, standing{}}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, check(bids, map[string]standing{"7": row.row7, "8": row.row8}, row.writes))
		})
	}
}

func TestWrongWinner_NamesAuctionAndBid(t *testing.T) {
	lost := bid{12, "7", "bob", 120}
	assert.Equal(t, "auction 7 has lost the bid of line 12, bob's 120; its row says cat's 110, token 3",
		wrongWinner{lost, standing{"cat", 110, 3}}.String())
	assert.Equal(t, "auction 7 has lost the bid of line 12, bob's 120; its row has no bid at all", wrongWinner{lost, standing{}}.String())
}

func TestResultTable(t *testing.T) {
	lines := resultTable([]string{"12", "b", "7", "a"}, map[string]standing{
		"7": {"ann", 120, 34}, "12": {"a bidder with a long name", 5, 1}, "a": {"Zoë", 1, 1}, "b": {"x", 1, 1},
	}, map[string]*tally{"7": {applied: 10, outbid: 5, refused: 1}, "12": {applied: 1}, "a": {}, "b": {}})
	assert.Equal(t, []string{
		"  auction  winner                amount  token  bids  applied  outbid  refused",
		"  7        ann                      120     34    15       10       5        1",
		"  12       a bidder with a lon…       5      1     1        1       0        0",
		"  a        Zoë                        1      1     0        0       0        0",
		"  b        x                          1      1     0        0       0        0",
	}, lines)
}
