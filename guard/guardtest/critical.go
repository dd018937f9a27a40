package guardtest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// Cases of several calls at once, and of calls within calls.

// overtake is how long a paused function waits for another call to overtake it. A guard that makes
// the other one wait always costs the whole time.
const overtake = 100 * time.Millisecond

// pausedHolder is a Do that stands still in its function, before its write.
type pausedHolder struct {
	claim   fence.Claim
	resume  chan struct{} // close it to let the function write and return
	outcome chan error    // of Do
}

// pause starts a Do for the resource under token 33 and waits until it is in its function.
func (d doerSubject) pause(t *testing.T, resource string) pausedHolder {
	t.Helper()
	p := pausedHolder{
		claim:   fence.Claim{Resource: resource, Token: 33, Holder: uuid.New()},
		resume:  make(chan struct{}),
		outcome: make(chan error, 1),
	}
	inside := make(chan struct{})
	go func() {
		p.outcome <- d.do(t.Context(), p.claim, func(ctx context.Context) error {
			close(inside)
			<-p.resume
			return d.Store.Write(ctx, resource, 33)
		})
	}()
	select {
	case <-inside:
	case err := <-p.outcome:
		require.FailNow(t, "Do did not run its function", "%v", err)
	}
	return p
}

func testOvertakenByDo(t *testing.T, d doerSubject) {
	r := d.resource(t, "overtaken")
	a := d.pause(t, r)
	b := fence.Claim{Resource: r, Token: 34, Holder: uuid.New()}
	overtaken := make(chan error, 1)
	go func() { overtaken <- d.do(t.Context(), b, d.writes(r, 34)) }()

	errB, done := receive(overtaken, overtake)
	close(a.resume)
	errA := <-a.outcome
	if !done {
		errB = <-overtaken
	} else {
		assert.Error(t, errA, "token 34 was in and out before 33 wrote: 33's write must be refused")
	}
	require.NoError(t, errB)
	d.requireValue(t, r, 34)

	ran := false
	err := d.do(t.Context(), a.claim, func(context.Context) error {
		ran = true
		return nil
	})
	requireRejected(t, err, a.claim, fence.ErrStale, 34)
	assert.False(t, ran)
	d.marked(t, r, 34, b.Holder)
}

func testOvertakenByAdmit(t *testing.T, d doerSubject) {
	r := d.resource(t, "overtaken")
	a := d.pause(t, r)
	b := fence.Claim{Resource: r, Token: 34, Holder: uuid.New()}
	type seal struct {
		err   error
		value int64 // what was there right after 34 had been admitted: from then on 33 changes nothing
	}
	sealed := make(chan seal, 1)
	go func() {
		var s seal
		if s.err = d.admit(t, b); s.err == nil {
			s.value, s.err = d.Store.Read(t.Context(), r)
		}
		sealed <- s
	}()

	s, done := receive(sealed, overtake)
	close(a.resume)
	t.Logf("33, which 34 may have overtaken: %v", <-a.outcome)
	if !done {
		s = <-sealed
	}
	require.NoError(t, s.err)
	d.requireValue(t, r, s.value)
	d.marked(t, r, 34, b.Holder)
}

func testSerial(t *testing.T, d doerSubject) {
	const workers, each = 6, 10
	r := d.resource(t, "serial")
	c := fence.Claim{Resource: r, Token: 1, Holder: uuid.New()}
	var inside atomic.Int32
	atOnce(workers, func(int) {
		for range each {
			assert.NoError(t, d.do(t.Context(), c, func(ctx context.Context) error {
				assert.Equal(t, int32(1), inside.Add(1), "two functions at once for one resource")
				defer inside.Add(-1)
				value, err := d.Store.Read(ctx, r)
				runtime.Gosched()
				return errors.Join(err, d.Store.Write(ctx, r, value+1))
			}))
		}
	})
	d.requireValue(t, r, workers*each)
}

func testNewestWriteStays(t *testing.T, d doerSubject) {
	const workers, each = 6, 10
	r := d.resource(t, "newest")
	var source, clock atomic.Int64
	history := make([]attempt, workers*each)
	atOnce(workers, func(w int) {
		for i := range each {
			a := &history[w*each+i]
			a.claim = fence.Claim{Resource: r, Token: fence.Token(source.Add(1)), Holder: uuid.New()}
			runtime.Gosched() // between the token and its use: some come too late
			a.start = clock.Add(1)
			a.err = d.do(t.Context(), a.claim, d.writes(r, int64(a.claim.Token)))
			a.end = clock.Add(1)
		}
	})
	require.NoError(t, checkHistory(history))
	d.requireValue(t, r, workers*each)
}

func testWaitingEnds(t *testing.T, d doerSubject) {
	r := d.resource(t, "waiting")
	a := d.pause(t, r)
	b := fence.Claim{Resource: r, Token: 34, Holder: uuid.New()}
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return d.Guard.Admit(ctx, b) },
		func(ctx context.Context) error { return d.Guard.Do(ctx, b, d.writes(r, 34)) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), overtake)
		returned := make(chan error, 1)
		go func() { returned <- call(ctx) }()
		err, ok := receive(returned, overtake+patience)
		cancel()
		if assert.True(t, ok, "still waiting though its context has ended") && err != nil {
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotErrorIs(t, err, fence.ErrStale)
		}
	}
	close(a.resume)
	t.Logf("33, which 34 may have overtaken: %v", <-a.outcome)
	value, err := d.Store.Read(t.Context(), r)
	require.NoError(t, err)
	assert.NotEqual(t, int64(34), value, "a call that gave up has written")
}

func testOthersGoOn(t *testing.T, d doerSubject) {
	r, other := d.resource(t, "held"), d.resource(t, "other")
	a := d.pause(t, r)
	returned := make(chan error, 1)
	go func() {
		c := fence.Claim{Resource: other, Token: 1, Holder: uuid.New()}
		returned <- errors.Join(d.admit(t, c), d.do(t.Context(), c, d.writes(other, 1)))
	}()
	err, ok := receive(returned, patience)
	close(a.resume)
	require.NoError(t, <-a.outcome)
	require.True(t, ok, "another resource waits for the one that is held")
	require.NoError(t, err)
	d.requireValue(t, other, 1)
}

func testNested(t *testing.T, d doerSubject) {
	r := d.resource(t, "nested")
	c := fence.Claim{Resource: r, Token: 33, Holder: uuid.New()}
	require.NoError(t, d.do(t.Context(), c, func(ctx context.Context) error {
		return errors.Join(
			d.Guard.Admit(ctx, c),
			d.Guard.Do(ctx, c, d.writes(r, 33)),
		)
	}))
	d.requireValue(t, r, 33)
	d.marked(t, r, 33, c.Holder)
}

func testNestedRefusal(t *testing.T, d doerSubject) {
	r := d.resource(t, "nested")
	ann, bob := uuid.New(), uuid.New()
	require.NoError(t, d.do(t.Context(), fence.Claim{Resource: r, Token: 33, Holder: ann}, d.writes(r, 33)))
	older := fence.Claim{Resource: r, Token: 32, Holder: uuid.New()}
	for name, nested := range map[string]func(ctx context.Context) error{
		"Admit": func(ctx context.Context) error { return d.Guard.Admit(ctx, older) },
		"Do":    func(ctx context.Context) error { return d.Guard.Do(ctx, older, d.writes(r, 32)) },
	} {
		err := d.do(t.Context(), fence.Claim{Resource: r, Token: 34, Holder: bob}, func(ctx context.Context) error {
			if err := d.Store.Write(ctx, r, 34); err != nil {
				return err
			}
			requireRejected(t, nested(ctx), older, fence.ErrStale, 34)
			return nil // swallowed
		})
		if !d.Transactional {
			require.NoError(t, err, name)
			d.requireValue(t, r, 34)
			continue
		}
		requireRejected(t, err, older, fence.ErrStale, 34)
		d.requireValue(t, r, 33)
		d.marked(t, r, 33, ann)
	}
}

// receive waits for a value, but not for longer than the time given.
func receive[T any](from <-chan T, most time.Duration) (value T, ok bool) {
	select {
	case value = <-from:
		return value, true
	case <-time.After(most):
		return value, false
	}
}
