package main

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// staged is a pause that is under way: a worker is stopped between its read and its write, until its
// lease has run out and another worker has written more. Its methods are told what happens; on nil they
// do nothing.
type staged struct {
	screen *screen
	title  string
	worker *worker
	victim bid
	top    bid // the worker goes on when this one, or another as high, is written

	token  fence.Token // of the victim; 0 until it is at the brink
	still  bool        // it stands still
	lapsed bool        // its lease has run out: somebody else has one
	over   written     // what was written meanwhile; since then it goes on
}

func (p *staged) is(w *worker) bool { return p != nil && p.worker == w }

// atTheBrink: the victim has read and is about to write. That is where it is stopped.
func (p *staged) atTheBrink(r report) error {
	p.token = r.Token
	p.screen.gap()
	p.screen.note("", "", "%s", p.title)
	p.screen.note(p.worker.name, "holds", "token %v; has read %v and is about to write %v", r.Token, r.Standing, p.victim)
	if !canStop {
		p.screen.note(p.worker.name, "pause", "simulated, for want of SIGSTOP: it waits and renews no lease")
		p.still = true
		return nil
	}
	if err := stop(p.worker.cmd.Process); err != nil {
		return fmt.Errorf("stop %s: %w", p.worker.name, err)
	}
	return nil
}

// hasStopped: the system says that the victim stands still. It is told to go on right away; what holds
// it from now on is the system alone.
func (p *staged) hasStopped() {
	if p.token == 0 || p.still {
		return // by somebody else, at some other point
	}
	p.still = true
	p.screen.note(p.worker.name, "SIGSTOP", "process %d stands still, and so renews no lease", p.worker.cmd.Process.Pid)
	p.worker.send(order{Go: true})
}

// otherAcquired: a worker has a lease. If it is on the victim's auction, the victim's is over.
func (p *staged) otherAcquired(w *worker, b bid, token fence.Token) {
	if p == nil || !p.still || p.lapsed || b.Auction != p.victim.Auction || token <= p.token {
		return
	}
	p.lapsed = true
	p.screen.note(w.name, "holds", "token %v; the lease of %s has run out", token, p.worker.name)
}

// otherWrote: a worker has written a bid. If it is the one the pause was for, the victim goes on.
func (p *staged) otherWrote(w *worker, b bid, token fence.Token) {
	if p == nil || !p.still || p.over.token != 0 || token <= p.token || b.Auction != p.top.Auction || b.Amount < p.top.Amount {
		return
	}
	p.over = written{b, token}
	p.screen.note(w.name, "writes", "%v under token %v", b, token)
	if !canStop {
		p.screen.note(p.worker.name, "goes on", "its write of %v leaves under token %v", p.victim, p.token)
		p.worker.send(order{Go: true})
		return
	}
	p.screen.note(p.worker.name, "SIGCONT", "goes on; its write of %v leaves under token %v", p.victim, p.token)
	resume(p.worker.cmd.Process)
}

// wasRefused: the guard has refused the late write.
func (p *staged) wasRefused(r report) {
	p.screen.note(p.worker.name, "REFUSED", "token %v < mark %v; its lease ran out %d ms ago", r.Token, r.Mark, r.Late.Milliseconds())
}

// finished: the victim's bid is decided. If that was by the late write itself, it has destroyed what
// was written during the pause.
func (p *staged) finished(r report) {
	name := p.worker.name
	switch {
	case p.over.token == 0:
		p.screen.note(name, "no pause", "its bid was decided before")
	case r.Kind == outbid:
		p.screen.note(name, "retries", "under a fresh lease: outbid by %v", r.Standing)
	case r.Token == p.token:
		p.screen.note(name, "DAMAGE", "%v, token %v, has overwritten %v", p.victim, p.token, p.over.bid)
	}
	p.screen.gap()
}
