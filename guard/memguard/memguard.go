package memguard

import (
	"context"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// Guard keeps marks in memory. It is safe for concurrent use. Make one with [New].
type Guard struct {
	mu    sync.Mutex // held for a lookup or a decision, never while a function runs
	cells map[string]*cell
}

var _ guard.Doer = (*Guard)(nil)

// cell is what the guard keeps of a resource.
type cell struct {
	turn chan struct{} // holds one value while a call has its turn
	mark guard.Mark    // under Guard.mu
}

// visit is a call of Do that has its turn; the context of its function carries it.
type visit struct {
	open bool // under Guard.mu: the function has not returned
}

// visitKey is the context key of a visit: of one guard and one resource.
type visitKey struct {
	guard    *Guard
	resource string
}

// New returns a guard without marks.
func New() *Guard { return &Guard{cells: make(map[string]*cell)} }

// Admit checks c against the mark and raises the mark to c. It waits for its turn while a [Guard.Do]
// of the same resource runs. Errors: a *[fence.RejectedError]; [fence.ErrInvalid]; if ctx has ended
// before or during the wait, [fence.ErrUnavailable] together with ctx's error.
func (g *Guard) Admit(ctx context.Context, c fence.Claim) error {
	cl, err := g.enter(ctx, c)
	if err != nil {
		return err
	}
	cl.leave()
	return nil
}

// Do admits c and runs fn while it holds the resource; see the package comment for what is and what
// is not undone. fn's error is returned as it is; a panic goes on once the resource is released. The
// other errors are those of [Guard.Admit]; fn has then not run.
func (g *Guard) Do(ctx context.Context, c fence.Claim, fn func(ctx context.Context) error) error {
	cl, err := g.enter(ctx, c)
	if err != nil {
		return err
	}
	v := &visit{open: true}
	defer func() {
		g.mu.Lock()
		v.open = false
		g.mu.Unlock()
		cl.leave()
	}()
	return fn(context.WithValue(ctx, visitKey{g, c.Resource}, v))
}

// Mark returns the mark of a resource, and whether there is one. It does not wait.
func (g *Guard) Mark(resource string) (guard.Mark, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cl, ok := g.cells[resource]
	if !ok {
		return guard.Mark{}, false
	}
	return cl.mark, cl.mark.Token.Valid()
}

// enter waits for the turn and admits c. The returned cell has the turn and is to be left; it is nil
// when the call is part of a running Do, which has the turn already.
func (g *Guard) enter(ctx context.Context, c fence.Claim) (*cell, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memguard: %v: %w: %w", c, fence.ErrUnavailable, err)
	}

	outer, _ := ctx.Value(visitKey{g, c.Resource}).(*visit)
	g.mu.Lock()
	defer g.mu.Unlock()
	cl := g.cells[c.Resource]
	switch {
	case cl == nil: // free, and admits everything
		cl = &cell{turn: make(chan struct{}, 1)}
		cl.turn <- struct{}{}
		cl.mark = guard.Mark{Token: c.Token, Holder: c.Holder}
		g.cells[c.Resource] = cl
		return cl, nil
	case outer != nil && outer.open:
		return nil, cl.admit(c)
	}

	select {
	case cl.turn <- struct{}{}:
	default:
		g.mu.Unlock()
		err := cl.wait(ctx)
		g.mu.Lock()
		if err != nil {
			return nil, fmt.Errorf("memguard: %v: waiting for its turn: %w: %w", c, fence.ErrUnavailable, err)
		}
	}
	if err := cl.admit(c); err != nil {
		cl.leave()
		return nil, err
	}
	return cl, nil
}

// admit applies the rule. Guard.mu is held.
func (cl *cell) admit(c fence.Claim) error {
	if err := cl.mark.Judge(c); err != nil {
		return err
	}
	cl.mark = guard.Mark{Token: c.Token, Holder: c.Holder}
	return nil
}

// wait takes the turn once the calls before it are over, unless ctx ends first.
func (cl *cell) wait(ctx context.Context) error {
	select {
	case cl.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil { // both at once: a turn that comes too late is passed on
		cl.leave()
		return err
	}
	return nil
}

// leave passes the turn on.
func (cl *cell) leave() {
	if cl != nil {
		<-cl.turn
	}
}
