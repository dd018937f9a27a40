package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// hold holds the auctions and judges the result. Whatever happens, it ends all processors and removes
// what it has made.
func hold(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) (status int, err error) {
	run, prefix := runID(), "auction/"
	if o.realServers() {
		prefix += run + "/"
	}
	if o.bids != "" {
		fmt.Fprintf(stdout, "reading bids from %s\n", o.source())
	}
	in, err := o.input(ctx, stdin, prefix)
	if err != nil {
		return 0, err
	}
	bids, bad := in.bids, in.bad
	tellBad(stderr, bad)
	auctions := auctionsOf(bids)
	plan := choosePauses(bids, o.pauses, rand.New(rand.NewPCG(o.seed, 0)))
	if len(bids) == 0 {
		fmt.Fprintf(stdout, "%s has no bids: nothing to do\n", o.source())
		return skippedOr(allRight, bad), nil
	}

	h, err := openHouse(ctx, o, run, prefix, auctions)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()

	screen := newScreen(stdout)
	screen.say("%s on %s from %s", count(len(bids), "bid"), count(len(auctions), "auction"), o.source())
	h.describe(screen, o)
	switch {
	case len(plan) < o.pauses:
		screen.say("  pauses      %d of %d can be staged: each takes a bid, and later a higher one on its auction", len(plan), o.pauses)
	case o.pauses > 0:
		screen.say("  pauses      %d, chosen by seed %d", o.pauses, o.seed)
	}

	s, err := process(ctx, o, h, bids, plan, screen)
	if err != nil {
		return 0, err
	}
	reading, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	rows, err := h.rows.All(reading)
	if err != nil {
		return 0, fmt.Errorf("read the result: %w", err)
	}
	screen.gap()
	for _, line := range resultTable(auctions, rows, s.tallies) {
		screen.say("%s", line)
	}
	screen.gap()
	wrong := check(bids, rows, s.writes)
	verdict(screen, o, s, len(auctions), wrong)
	if screen.err != nil {
		return 0, fmt.Errorf("write the output: %w", screen.err)
	}
	if len(wrong) > 0 {
		return bidLost, nil
	}
	return skippedOr(allRight, bad), nil
}

func skippedOr(status int, bad []badLine) int {
	if len(bad) > 0 {
		return someSkipped
	}
	return status
}

// process has all bids processed by a crew, of which nobody is left when it returns.
func process(ctx context.Context, o options, h *house, bids []bid, plan []pause, screen *screen) (*sale, error) {
	crew, err := hireCrew(o.processors, setup{
		Locks: h.locks, Rows: h.address, Prefix: h.prefix, TTL: o.ttl, Guard: o.guard, Simulated: !canStop,
	})
	defer crew.dismiss()
	if err != nil {
		return nil, err
	}
	title := "processes"
	for some := range slices.Chunk(crew.workers, 8) {
		var names []string
		for _, w := range some {
			names = append(names, fmt.Sprintf("%s %d", w.name, w.cmd.Process.Pid))
		}
		screen.say("  %-10s  %s", title, strings.Join(names, ", "))
		title = ""
	}
	screen.gap()
	s := newSale(bids, plan, crew, screen)
	err = s.run(ctx, o.ttl)
	screen.print(screen.wipe())
	return s, err
}

// verdict prints what came out.
func verdict(screen *screen, o options, s *sale, auctions int, wrong []wrongWinner) {
	refused := 0
	for _, t := range s.tallies {
		refused += t.refused
	}
	switch {
	case len(wrong) == 0 && o.guard:
		screen.say("RIGHT: each auction was won by its highest bid. Late writes refused: %d", refused)
		return
	case len(wrong) == 0:
		screen.say("RIGHT, by luck: each auction was won by its highest bid, and no guard was there to see to it")
		return
	}
	screen.say("WRONG: %d of %s not won by the highest bid", len(wrong), count(auctions, "auction"))
	for _, w := range wrong {
		screen.say("  %v", w)
	}
	if !o.guard {
		screen.say("That is what the guard is for: run it again without -guard=off")
	}
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
