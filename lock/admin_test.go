package lock_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/lock"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/locktest"
	"github.com/ringfence/ringfence/lock/memlock"
)

func TestInspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, memlock.New())
		info, err := l.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, lock.Info{Holder: "none"}, info)
		lease := acquire(t, l, "a", lock.WithLabel("the night's report"))
		_, next := queue(t, 2, "a", l)
		time.Sleep(5 * time.Second)
		info, err = l.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, lock.Info{
			Held: true, Token: lease.Token(), Holder: fence.Fingerprint(lease.Claim().Holder),
			Label: "the night's report", Remaining: 25 * time.Second, Waiters: 2,
		}, info)
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
		require.NoError(t, next().Release(t.Context()))
		_, err = l.Inspect(t.Context(), "")
		require.ErrorIs(t, err, fence.ErrInvalid)
	})
}

func TestL23_BreakEndsTheLeaseAndShutsItsHolderOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := memguard.New()
		d := memlock.New()
		l, admin := newLocker(t, d), newLocker(t, d, lock.WithMinHold(time.Second))
		stuck := acquire(t, l, "a")
		require.NoError(t, guard.Admit(t.Context(), stuck.Claim()))
		_, next := queue(t, 1, "a", l)
		claim, err := admin.Break(t.Context(), "a", lock.WithSeal(guard))
		require.NoError(t, err)
		assert.Greater(t, claim.Token, stuck.Token())
		require.ErrorIs(t, guard.Admit(t.Context(), stuck.Claim()), fence.ErrStale)
		start := time.Now()
		waiting := next()
		assert.Zero(t, time.Since(start), "who waits is next")
		assert.Greater(t, waiting.Token(), claim.Token)
		require.ErrorIs(t, endOf(stuck), lock.ErrLost)
		assert.LessOrEqual(t, time.Since(start), 10*time.Second, "learnt at the next renewal")
		require.ErrorIs(t, stuck.Release(t.Context()), lock.ErrLost)
		require.NoError(t, waiting.Err())
	})
}

func TestL23_BreakOfOneHolderNeverHitsTheNext(t *testing.T) {
	l := newLocker(t, memlock.New())
	first := acquire(t, l, "a")
	meant := fence.Fingerprint(first.Claim().Holder)
	require.NoError(t, first.Release(t.Context()))
	second := acquire(t, l, "a")
	_, err := l.Break(t.Context(), "a", lock.IfHeldBy(meant))
	require.ErrorIs(t, err, lock.ErrLost)
	require.NoError(t, second.Renew(t.Context(), time.Minute))
	_, err = l.Break(t.Context(), "a", lock.IfHeldBy(fence.Fingerprint(second.Claim().Holder)))
	require.NoError(t, err)
	require.ErrorIs(t, second.Renew(t.Context(), time.Minute), lock.ErrLost)
	_, err = l.Break(t.Context(), "a", lock.IfHeldBy(meant))
	require.ErrorIs(t, err, lock.ErrLost, "nobody has it")
	_, err = l.Break(t.Context(), "")
	require.ErrorIs(t, err, fence.ErrInvalid)
	for _, bad := range []string{"none", "0123456", "012345678", "0123456g"} {
		_, err = l.Break(t.Context(), "a", lock.IfHeldBy(bad))
		require.ErrorIs(t, err, fence.ErrInvalid, bad)
	}
}

// TestL23_UnansweredBreakIsEnded has the store do it, and the answer not come.
func TestL23_UnansweredBreakIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := locktest.ScriptAll(memlock.New())
		d.OnBreak = func(ctx context.Context, r driver.Request, fingerprint string, next locktest.BreakFunc) (driver.Grant, error) {
			_, _ = next(ctx, r, fingerprint)
			return driver.Grant{}, errBroken
		}
		l := newLocker(t, d)
		old := acquire(t, l, "a")
		_, err := l.Break(t.Context(), "a")
		require.ErrorIs(t, err, lock.ErrUnavailable)
		synctest.Wait()
		require.ErrorIs(t, old.Release(t.Context()), lock.ErrLost)
		require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()))
	})
}

func TestRaise(t *testing.T) {
	l := newLocker(t, memlock.New())
	before := acquire(t, l, "a")
	require.NoError(t, before.Release(t.Context()))
	past := before.Token() + 1_000_000_000_000
	require.NoError(t, l.Raise(t.Context(), "a", past))
	require.NoError(t, l.Raise(t.Context(), "a", 7), "only ever upwards")
	after := acquire(t, l, "a")
	assert.Greater(t, after.Token(), past)
	require.ErrorIs(t, l.Raise(t.Context(), "a", math.MaxInt64), lock.ErrExhausted)
	require.ErrorIs(t, l.Raise(t.Context(), "a", 0), fence.ErrInvalid)
	require.ErrorIs(t, l.Raise(t.Context(), "", 1), fence.ErrInvalid)
	require.NoError(t, l.Raise(t.Context(), "b", math.MaxInt64-1))
	last := acquire(t, l, "b")
	assert.EqualValues(t, math.MaxInt64, last.Token())
	require.NoError(t, last.Release(t.Context()))
	_, err := l.Acquire(t.Context(), "b")
	require.ErrorIs(t, err, lock.ErrExhausted)
	require.NotErrorIs(t, err, lock.ErrUnavailable)
}

// TestL19_TokensHealThroughTheSeal has the mark ahead of the tokens, or another holder with the same token.
func TestL19_TokensHealThroughTheSeal(t *testing.T) {
	for name, ahead := range map[string]fence.Token{"stale": 1_000_000_000_000, "duplicate": 0} {
		t.Run(name, func(t *testing.T) {
			guard := memguard.New()
			var mark, refused fence.Claim
			seal := sealFunc(func(ctx context.Context, c fence.Claim) error {
				if mark.Token == 0 { // a token source that was lost gives this one out again
					mark = fence.Claim{Resource: c.Resource, Token: c.Token + ahead, Holder: uuid.New()}
					refused = c
					if err := guard.Admit(ctx, mark); err != nil {
						return err
					}
				}
				fromContext, _ := fence.ForResource(ctx, c.Resource)
				assert.Equal(t, c, fromContext)
				return guard.Admit(ctx, c)
			})
			d := memlock.New()
			l := newLocker(t, d, lock.WithSeal(seal))
			lease := acquire(t, l, "a")
			assert.Greater(t, lease.Token(), mark.Token)
			assert.Equal(t, refused.Holder, lease.Claim().Holder)
			inContext, _ := fence.FromContext(lease.Context())
			assert.Equal(t, lease.Claim(), inContext)
			assert.Equal(t, []fence.Claim{lease.Claim()}, fence.Claims(lease.Context()))
			require.NoError(t, guard.Admit(t.Context(), lease.Claim()))
			require.ErrorIs(t, guard.Admit(t.Context(), mark), fence.ErrStale)
			require.NoError(t, lease.Renew(t.Context(), time.Minute))
			token := lease.Token()
			require.NoError(t, lease.Release(t.Context()))
			assert.Greater(t, acquire(t, l, "a").Token(), token)
		})
	}
}

func TestL19_WhatCanNotHeal(t *testing.T) {
	rejects := func(mark fence.Token, verdict error) lock.Sealer {
		return sealFunc(func(_ context.Context, c fence.Claim) error {
			return &fence.RejectedError{Claim: c, Mark: mark, Verdict: verdict}
		})
	}
	d := memlock.New()
	l := newLocker(t, d)
	for name, row := range map[string]struct {
		seal lock.Sealer
		want error
	}{
		"at the top":        {rejects(math.MaxInt64, fence.ErrStale), lock.ErrExhausted},
		"an unknown mark":   {rejects(0, fence.ErrStale), fence.ErrStale},
		"one write a token": {rejects(9, fence.ErrReplayed), fence.ErrReplayed},
		"always ahead": {sealFunc(func(_ context.Context, c fence.Claim) error {
			return &fence.RejectedError{Claim: c, Mark: c.Token + 1, Verdict: fence.ErrStale}
		}), fence.ErrStale},
	} {
		_, err := l.Acquire(t.Context(), "a", lock.WithSeal(row.seal))
		require.ErrorIs(t, err, row.want, name)
		require.NoError(t, acquire(t, l, "a", lock.WithoutWaiting()).Release(t.Context()), name)
	}
	// The lease is somebody else's by the time the seal has refused: nothing is lifted.
	_, err := l.Acquire(t.Context(), "a", lock.WithSeal(sealFunc(func(ctx context.Context, c fence.Claim) error {
		_, err := l.Break(context.WithoutCancel(ctx), "a")
		assert.NoError(t, err)
		return &fence.RejectedError{Claim: c, Mark: c.Token + 1_000_000_000_000, Verdict: fence.ErrStale}
	})))
	require.ErrorIs(t, err, lock.ErrLost)
	token := acquire(t, l, "a").Token()
	assert.Less(t, token, fence.Token(time.Now().Add(time.Hour).UnixMicro()))
}

func TestIfHeldBy_IsCheckedEverywhere(t *testing.T) {
	_, err := lock.New(memlock.New(), lock.IfHeldBy("nonsense"))
	require.ErrorIs(t, err, fence.ErrInvalid)
	_, err = newLocker(t, memlock.New()).Acquire(t.Context(), "a", lock.IfHeldBy("nonsense"))
	require.ErrorIs(t, err, fence.ErrInvalid)
}
