package guardtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/fence"
)

// Cases of what becomes of Do when its function returns, fails, panics or never returns.

// failure is an error of the caller's own.
type failure struct{ code int }

func (f *failure) Error() string { return fmt.Sprintf("failure %d", f.code) }

var errFailed = errors.New("failed on purpose")

func testContextReaches(t *testing.T, d doerSubject) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	defer cancel()
	r := d.resource(t, "context")
	err := d.do(ctx, fence.Claim{Resource: r, Token: 1, Holder: uuid.New()}, func(ctx context.Context) error {
		assert.Equal(t, "value", ctx.Value(key{}))
		assert.NoError(t, ctx.Err())
		cancel()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(patience):
			return errors.New("the function's context did not end with its parent")
		}
	})
	require.ErrorIs(t, err, context.Canceled)
}

func testFailedFunction(t *testing.T, d doerSubject) {
	r := d.resource(t, "failed")
	ann, bob := uuid.New(), uuid.New()
	require.NoError(t, d.do(t.Context(), fence.Claim{Resource: r, Token: 33, Holder: ann}, d.writes(r, 33)))

	ran := 0
	err := d.do(t.Context(), fence.Claim{Resource: r, Token: 34, Holder: bob}, func(ctx context.Context) error {
		ran++
		return errors.Join(d.Store.Write(ctx, r, 34), errFailed, &failure{code: 7})
	})
	require.Equal(t, 1, ran, "the function runs once")
	require.ErrorIs(t, err, errFailed)
	var f *failure
	require.ErrorAs(t, err, &f)
	assert.Equal(t, 7, f.code)
	d.requireAfterFailure(t, r, ann, bob)
}

// requireAfterFailure requires what a function that wrote 34 under bob's token 34, over ann's 33, and
// then failed, leaves behind.
func (d doerSubject) requireAfterFailure(t *testing.T, r string, ann, bob uuid.UUID) {
	t.Helper()
	if d.Transactional {
		d.requireValue(t, r, 33)
		d.marked(t, r, 33, ann)
	} else {
		d.requireValue(t, r, 34)
		d.refused(t, r, 33, ann, fence.ErrStale, 34)
		d.marked(t, r, 34, bob)
	}
	again := fence.Claim{Resource: r, Token: 34, Holder: bob}
	require.NoError(t, d.do(t.Context(), again, d.writes(r, 35)), "the failed holder may try again")
	d.requireValue(t, r, 35)
}

func testPanic(t *testing.T, d doerSubject) {
	r := d.resource(t, "panic")
	ann, bob := uuid.New(), uuid.New()
	require.NoError(t, d.do(t.Context(), fence.Claim{Resource: r, Token: 33, Holder: ann}, d.writes(r, 33)))

	boom := &failure{code: 54}
	assert.PanicsWithValue(t, boom, func() {
		_ = d.do(t.Context(), fence.Claim{Resource: r, Token: 34, Holder: bob}, func(ctx context.Context) error {
			assert.NoError(t, d.Store.Write(ctx, r, 34))
			panic(boom)
		})
	}, "the panic must reach the caller of Do")
	d.requireAfterFailure(t, r, ann, bob)
}

// runtime.Goexit is what t.FailNow does: deferred calls run, nothing can be recovered.
func testGoexit(t *testing.T, d doerSubject) {
	r := d.resource(t, "goexit")
	ann, bob := uuid.New(), uuid.New()
	require.NoError(t, d.do(t.Context(), fence.Claim{Resource: r, Token: 33, Holder: ann}, d.writes(r, 33)))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = d.do(t.Context(), fence.Claim{Resource: r, Token: 34, Holder: bob}, func(ctx context.Context) error {
			assert.NoError(t, d.Store.Write(ctx, r, 34))
			runtime.Goexit()
			return nil
		})
	}()
	<-gone
	d.requireAfterFailure(t, r, ann, bob)
}

// testDoModel runs random sequences of Admit and of Do with every ending against the model, and the
// protected value with it.
func testDoModel(t *testing.T, d doerSubject) {
	endings := map[string]func() error{
		"succeed": func() error { return nil },
		"fail":    func() error { return errFailed },
		"panic":   func() error { panic(errFailed) },
	}
	rapid.Check(t, func(rt *rapid.T) {
		resources := []string{d.resource(t, "a"), d.resource(t, "b")}
		m, values := model{}, map[string]int64{}
		sequence := rapid.SliceOfN(claims(resources), 1, mostSteps).Draw(rt, "claims")
		for i, c := range sequence {
			ending := rapid.SampledFrom([]string{"admit", "succeed", "fail", "panic"}).Draw(rt, "ending")
			if ending == "admit" {
				requireModelled(rt, m, c, d.admit(t, c))
				continue
			}
			value, ran, admitted := int64(i+1), false, m.judge(c) == nil
			err := recovered(func() error {
				return d.do(t.Context(), c, func(ctx context.Context) error {
					ran = true
					if err := d.Store.Write(ctx, c.Resource, value); err != nil {
						return err
					}
					return endings[ending]()
				})
			})
			require.Equal(rt, admitted, ran, "%v: whether the function runs", c)
			switch failed := admitted && ending != "succeed"; {
			case failed && d.Transactional:
				require.ErrorIs(rt, err, errFailed)
			case failed:
				require.ErrorIs(rt, err, errFailed)
				m.raise(c)
				values[c.Resource] = value
			default:
				requireModelled(rt, m, c, err)
				if admitted {
					values[c.Resource] = value
				}
			}
			got, err := d.Store.Read(t.Context(), c.Resource)
			require.NoError(rt, err)
			require.Equal(rt, values[c.Resource], got, "the protected value")
		}
	})
}

// recovered turns a panic of f with errFailed into that error.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p == any(errFailed) {
			err = errFailed
		} else if p != nil {
			panic(p)
		}
	}()
	return f()
}

func (d doerSubject) requireValue(t *testing.T, resource string, want int64) {
	t.Helper()
	got, err := d.Store.Read(t.Context(), resource)
	require.NoError(t, err)
	require.Equal(t, want, got, "the protected value")
}
