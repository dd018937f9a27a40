package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tally counts what became of an auction's bids. A refused write is counted beside: its bid was tried
// again, and is then applied or outbid.
type tally struct{ applied, outbid, refused int }

// resultTable is the closing table, a line each.
func resultTable(auctions []string, rows map[string]standing, tallies map[string]*tally) []string {
	table := [][]string{{"auction", "winner", "amount", "token", "bids", "applied", "outbid", "refused"}}
	for _, auction := range slices.SortedFunc(slices.Values(auctions), byNumber) {
		row, t := rows[auction], tallies[auction]
		cells := []string{shorten(auction), shorten(row.Bidder)}
		for _, n := range []int64{row.Amount, int64(row.Token), int64(t.applied + t.outbid), int64(t.applied), int64(t.outbid), int64(t.refused)} {
			cells = append(cells, fmt.Sprint(n))
		}
		table = append(table, cells)
	}
	return align(table, 2)
}

// byNumber puts 7 before 12, and names that are no numbers after those that are.
func byNumber(a, b string) int {
	n, errN := strconv.ParseUint(a, 10, 64)
	m, errM := strconv.ParseUint(b, 10, 64)
	switch {
	case errN == nil && errM == nil:
		return cmp.Or(cmp.Compare(n, m), cmp.Compare(a, b))
	case errN == nil:
		return -1
	case errM == nil:
		return 1
	}
	return cmp.Compare(a, b)
}

// align pads the cells of each column to one width: the first few columns are text, the others numbers.
func align(table [][]string, texts int) []string {
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, cells := range table {
		var line strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < texts {
				line.WriteString(cell + pad + "  ")
			} else {
				line.WriteString(pad + cell + "  ")
			}
		}
		lines = append(lines, "  "+strings.TrimRight(line.String(), " "))
	}
	return lines
}

// shorten cuts a name that would make the table too wide.
func shorten(s string) string {
	const most = 20
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(slices.Concat(runes[:most-1], []rune("…")))
}
