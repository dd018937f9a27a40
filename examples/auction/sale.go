package main

import (
	"context"
	"fmt"
	"time"
)

// sale deals the bids out to the workers, in the order of the input and each to the next one that is
// free, so that several of them often want the same auction. It also stages the pauses.
type sale struct {
	bids   []bid
	plan   map[int]pause // by the place of the victim
	crew   *crew
	screen *screen

	next    int // the first bid not dealt out yet
	free    []*worker
	at      map[*worker]int // the bid that a worker is at
	started int             // workers that are set up
	done    int             // bids
	pauses  int             // begun
	staged  *staged         // the pause that is under way

	tallies map[string]*tally
	writes  []written
}

func newSale(bids []bid, plan []pause, c *crew, s *screen) *sale {
	all := &sale{
		bids: bids, plan: map[int]pause{}, crew: c, screen: s,
		at: map[*worker]int{}, tallies: map[string]*tally{},
	}
	for _, p := range plan {
		all.plan[p.Victim] = p
	}
	for _, b := range bids {
		all.tallies[b.Auction] = &tally{}
	}
	return all
}

// quiet is how many seconds may pass without news from any worker: more than a lease, more than all
// timeouts of a store.
func quiet(ttl time.Duration) int { return 45 + 2*int(ttl/time.Second) }

// run returns when all bids are decided, or with the error that keeps them from it.
func (s *sale) run(ctx context.Context, ttl time.Duration) error {
	// Counted in ticks: while this process itself stands still (Ctrl-Z), there are none.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	silence := 0
	for s.done < len(s.bids) {
		select {
		case e := <-s.crew.events:
			silence = 0
			s.crew.took(e)
			if err := s.take(e); err != nil {
				return err
			}
			s.deal()
		case <-tick.C:
			silence++
			if silence > quiet(ttl) {
				return fmt.Errorf("no processor has said anything for %d s; %d of %d bids are done", silence, s.done, len(s.bids))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if s.screen.err != nil {
			return fmt.Errorf("write the output: %w", s.screen.err)
		}
	}
	return nil
}

// deal hands out bids as long as there are free workers. It begins when all workers are set up. The
// victim of a pause goes alone until it stands still, and there is one pause at a time.
func (s *sale) deal() {
	for s.started == len(s.crew.workers) && s.next < len(s.bids) && len(s.free) > 0 {
		p, isVictim := s.plan[s.next]
		if s.staged != nil && (isVictim || !s.staged.still) {
			return
		}
		w := s.free[0]
		s.free = s.free[1:]
		s.at[w] = s.next
		if isVictim {
			s.pauses++
			s.staged = &staged{
				screen: s.screen, title: fmt.Sprintf("pause %d of %d, on auction %s", s.pauses, len(s.plan), s.bids[p.Victim].Auction),
				worker: w, victim: s.bids[p.Victim], top: s.bids[p.Top],
			}
		}
		w.send(order{Bid: &s.bids[s.next], Pause: isVictim})
		s.next++
	}
}

// take takes an event in.
func (s *sale) take(e event) error {
	w := e.from
	place, busy := s.at[w]
	switch {
	case e.ended != "" && busy:
		return fmt.Errorf("%s (process %d) has ended, %s, at the bid of line %d", w.name, w.cmd.Process.Pid, e.ended, s.bids[place].Line)
	case e.ended != "":
		return fmt.Errorf("%s (process %d) has ended: %s", w.name, w.cmd.Process.Pid, e.ended)
	case e.stopped:
		if s.staged.is(w) {
			s.staged.hasStopped()
		} else {
			s.screen.note(w.name, "stopped", "by somebody else (kill -CONT %d lets it go on)", w.cmd.Process.Pid)
		}
		return nil
	}
	switch r := *e.report; r.Kind {
	case ready:
		s.started++
		s.free = append(s.free, w)
	case failed:
		if !busy {
			return fmt.Errorf("%s can't start: %s", w.name, r.Text)
		}
		return fmt.Errorf("%s can't decide the bid of line %d: %s", w.name, s.bids[place].Line, r.Text)
	case acquired:
		s.staged.otherAcquired(w, s.bids[place], r.Token)
	case brink:
		if !s.staged.is(w) {
			return fmt.Errorf("%s waits before its write, and nobody told it to", w.name)
		}
		return s.staged.atTheBrink(r)
	case refused:
		s.refused(w, s.bids[place], r)
	case applied, outbid:
		s.decided(w, s.bids[place], r)
	}
	return nil
}

func (s *sale) refused(w *worker, b bid, r report) {
	s.tallies[b.Auction].refused++
	if s.staged.is(w) {
		s.staged.wasRefused(r)
		return
	}
	s.screen.note(w.name, "REFUSED", "%v on auction %s: token %v < mark %v", b, b.Auction, r.Token, r.Mark)
}

// decided notes that the worker's bid is applied or outbid, and that the worker is free.
func (s *sale) decided(w *worker, b bid, r report) {
	if r.Kind == applied {
		s.tallies[b.Auction].applied++
		s.writes = append(s.writes, written{b, r.Token})
		s.staged.otherWrote(w, b, r.Token)
	} else {
		s.tallies[b.Auction].outbid++
	}
	if s.staged.is(w) {
		s.staged.finished(r)
		s.staged = nil
	}
	delete(s.at, w)
	s.free = append(s.free, w)
	s.done++
	s.screen.progress(s.done, len(s.bids))
}
