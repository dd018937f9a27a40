package guardtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// fake is a guard, and the store it protects, that is right unless faults make it wrong.
type fake struct {
	faults
	mu    sync.Mutex
	cells map[string]*cell
	all   chan struct{} // the turn of every resource, under oneTurnForAll
}

type cell struct {
	turn  chan struct{}
	mark  guard.Mark
	value int64
}

// faults are what can be wrong with a fake.
type faults struct {
	// Of the rule and what it is applied to.
	judge       func(guard.Mark, fence.Claim) error
	afterRefuse func(*guard.Mark, fence.Claim)
	refusal     func(*fence.RejectedError) error
	name        func(string) string
	token       func(fence.Token) fence.Token
	// Of a single step.
	anyClaim, ignoresContext, checkAndRaiseApart  bool
	rowsExist, makesRows, missingIsStale, rowless bool
	// Of Do.
	transactional, forgetsMark, runsWhenRefused                   bool
	outsideTurn, waitIgnoresContext, oneTurnForAll                bool
	runsTwice, backgroundContext, keepsTurnOnPanic, keepsOnGoexit bool
	nestedWaits, swallowsRefusal                                  bool
	result                                                        func(error) error
	swallowsPanic                                                 bool
}

func newFake(f faults) *fake {
	if f.judge == nil {
		f.judge = guard.Mark.Judge
	}
	if f.refusal == nil {
		f.refusal = func(r *fence.RejectedError) error { return r }
	}
	if f.name == nil {
		f.name = func(s string) string { return s }
	}
	if f.token == nil {
		f.token = func(t fence.Token) fence.Token { return t }
	}
	if f.result == nil {
		f.result = func(err error) error { return err }
	}
	return &fake{faults: f, cells: map[string]*cell{}, all: make(chan struct{}, 1)}
}

// visit is what the context of a function carries: the resources it holds, and a refusal in it.
type visit struct {
	resource string
	refusal  error
}

type visitKey struct{}

func (f *fake) Admit(ctx context.Context, c fence.Claim) error {
	return f.Do(ctx, c, nil)
}

func (f *fake) Do(ctx context.Context, c fence.Claim, fn func(context.Context) error) error {
	if err := c.Validate(); err != nil && !f.anyClaim {
		return err
	}
	if err := ctx.Err(); err != nil && !f.ignoresContext {
		return err
	}
	cl := f.cell(c.Resource)
	if cl == nil {
		if f.missingIsStale {
			return &fence.RejectedError{Claim: c, Mark: c.Token, Verdict: fence.ErrStale}
		}
		return fmt.Errorf("%w: %q", fence.ErrNotFound, c.Resource)
	}

	outer, _ := ctx.Value(visitKey{}).(*visit)
	if outer != nil && outer.resource == c.Resource && !f.nestedWaits {
		err := f.admit(cl, c)
		if err == nil && fn != nil {
			return fn(ctx)
		}
		if !f.swallowsRefusal {
			outer.refusal = err
		}
		return err
	}

	turn := cl.turn
	if f.oneTurnForAll {
		turn = f.all
	}
	ended := ctx.Done()
	if f.waitIgnoresContext || f.ignoresContext {
		ended = nil
	}
	select {
	case turn <- struct{}{}:
	case <-ended:
		return fmt.Errorf("%w: %w", fence.ErrUnavailable, ctx.Err())
	}
	return f.inTurn(ctx, turn, cl, c, fn)
}

func (f *fake) inTurn(ctx context.Context, turn chan struct{}, cl *cell, c fence.Claim, fn func(context.Context) error) (err error) {
	f.mu.Lock()
	before := *cl
	f.mu.Unlock()
	if f.checkAndRaiseApart {
		<-turn
		turn = make(chan struct{}, 1)
		turn <- struct{}{}
	}
	if err := f.admit(cl, c); err != nil {
		<-turn
		if f.runsWhenRefused && fn != nil {
			_ = fn(ctx)
		}
		return err
	}
	if fn == nil {
		<-turn
		return nil
	}
	if f.outsideTurn {
		<-turn
		turn = make(chan struct{}, 1)
		turn <- struct{}{}
	}

	returned, failed := false, true
	v := &visit{resource: c.Resource}
	defer func() {
		f.mu.Lock()
		if failed && f.transactional {
			cl.mark, cl.value = before.mark, before.value
		}
		if failed && f.forgetsMark {
			cl.mark = before.mark
		}
		f.mu.Unlock()
		var p any
		if !returned && (f.swallowsPanic || f.keepsOnGoexit) {
			p = recover()
		}
		if returned || !f.keepsTurnOnPanic && (p != nil || !f.keepsOnGoexit) {
			<-turn
		}
		if p != nil && !f.swallowsPanic {
			panic(p)
		}
	}()
	inner := context.WithValue(ctx, visitKey{}, v)
	if f.backgroundContext {
		inner = context.WithoutCancel(inner)
	}
	err = fn(inner)
	if err != nil && f.runsTwice {
		err = fn(inner)
	}
	if v.refusal != nil && f.transactional {
		err = v.refusal
	}
	returned, failed = true, err != nil
	return f.result(err)
}

// admit applies the rule, or what faults have made of it.
func (f *fake) admit(cl *cell, c fence.Claim) error {
	c.Token = f.token(c.Token)
	f.mu.Lock()
	err := f.judge(cl.mark, c)
	if f.checkAndRaiseApart {
		f.mu.Unlock()
		for range 50 {
			runtime.Gosched()
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	var rejected *fence.RejectedError
	switch {
	case err == nil:
		cl.mark = guard.Mark{Token: c.Token, Holder: c.Holder}
		return nil
	case f.afterRefuse != nil:
		f.afterRefuse(&cl.mark, c)
	}
	if errors.As(err, &rejected) {
		return f.refusal(rejected)
	}
	return err
}

// cell is the resource's; nil if its row must exist and doesn't.
func (f *fake) cell(resource string) *cell {
	f.mu.Lock()
	defer f.mu.Unlock()
	resource = f.name(resource)
	cl := f.cells[resource]
	if cl == nil && (!f.rowsExist || f.makesRows) {
		cl = &cell{turn: make(chan struct{}, 1)}
		f.cells[resource] = cl
	}
	if cl == nil && f.rowless {
		return &cell{turn: make(chan struct{}, 1)}
	}
	return cl
}

func (f *fake) prepare(_ testing.TB, resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cells[f.name(resource)] == nil {
		f.cells[f.name(resource)] = &cell{turn: make(chan struct{}, 1)}
	}
}

func (f *fake) Read(_ context.Context, resource string) (int64, error) {
	cl := f.cell(resource)
	f.mu.Lock()
	defer f.mu.Unlock()
	return cl.value, nil
}

func (f *fake) Write(_ context.Context, resource string, value int64) error {
	cl := f.cell(resource)
	f.mu.Lock()
	defer f.mu.Unlock()
	cl.value = value
	return nil
}

func (f *fake) harness() DoerHarness {
	h := DoerHarness{Guard: f, Transactional: f.transactional, Nests: true, Store: f}
	if f.rowsExist {
		h.Prepare = f.prepare
	}
	return h
}

func (f *fake) asGuard() guard.Guard {
	if f.rowsExist {
		return Rows(f, f.prepare)
	}
	return f
}
