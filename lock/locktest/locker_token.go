package locktest

import (
	"context"
	"errors"
	"math"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
)

// lockerRaiseCases are what package lock makes of a driver whose tokens can be lifted.
func lockerRaiseCases() []testCase {
	return []testCase{
		{"Locker/L19_RaiseLiftsLaterTokens", (*suite).lockerRaises},
		{"Locker/L19_SealHeals", (*suite).sealHeals},
	}
}

// lockerInspectCases are what package lock makes of a driver that tells who holds.
func lockerInspectCases() []testCase {
	return []testCase{
		{"Locker/InspectTellsWhoHolds", (*suite).lockerInspects},
	}
}

func (s *suite) lockerRaises() {
	const far = 1_000_000_000_000
	l := s.locker()
	first := s.next()
	require.NoError(s, l.Raise(s.ctx, s.resource, first+far))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	assert.Greater(s, lease.Token(), first+far)
	require.ErrorIs(s, l.Raise(s.ctx, s.resource, math.MaxInt64), lock.ErrExhausted)
}

// mark is the mark of one resource, at a guard with the full rule.
type mark fence.Claim

// Admit implements lock.Sealer.
func (m *mark) Admit(_ context.Context, c fence.Claim) error {
	switch {
	case c.Token < m.Token:
		return &fence.RejectedError{Claim: c, Mark: m.Token, Verdict: fence.ErrStale}
	case c.Token == m.Token && c.Holder != m.Holder:
		return &fence.RejectedError{Claim: c, Mark: m.Token, Verdict: fence.ErrDuplicate}
	}
	*m = mark(c)
	return nil
}

func (s *suite) sealHeals() {
	const far = 1_000_000_000_000
	l := s.locker(lock.WithTTL(s.long))
	for _, ahead := range []fence.Token{far, 1} {
		m := &mark{Resource: s.resource, Token: s.next() + ahead, Holder: uuid.New()}
		before := m.Token
		lease, err := l.Acquire(s.ctx, s.resource, lock.WithSeal(m))
		require.NoError(s, err)
		assert.Greater(s, lease.Token(), before)
		assert.Equal(s, mark(lease.Claim()), *m)
		assert.Equal(s, lease.Claim(), s.acquireAs(lease.Claim().Holder, s.resource, s.long), "the store has another token")
		require.NoError(s, lease.Renew(s.ctx, s.long))
		require.NoError(s, lease.Release(s.ctx))
		assert.Greater(s, s.next(), lease.Token())
	}
}

func (s *suite) lockerInspects() {
	l := s.locker(lock.WithTTL(s.long), lock.WithLabel("a label"))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	info, err := l.Inspect(s.ctx, s.resource)
	require.NoError(s, err)
	assert.LessOrEqual(s, info.Remaining, 2*s.long)
	info.Remaining = 0
	assert.Equal(s, lock.Info{
		Held: true, Token: lease.Token(), Holder: fence.Fingerprint(lease.Claim().Holder), Label: "a label",
	}, info)
	require.NoError(s, lease.Release(s.ctx))
	info, err = l.Inspect(s.ctx, s.resource)
	require.NoError(s, err)
	assert.False(s, info.Held)
}

// whatIsMissingIsSaid is for a driver that lacks optional abilities.
func (s *suite) whatIsMissingIsSaid(can abilities) {
	l := s.locker(lock.WithTTL(s.long))
	lease, err := l.Acquire(s.ctx, s.resource)
	require.NoError(s, err)
	_, err = l.Resume(s.ctx, fence.Claim{Resource: s.resource + "/free", Token: 1, Holder: uuid.New()})
	assert.Equal(s, !can.resume, errors.Is(err, errors.ErrUnsupported), "%v", err)
	err = l.Raise(s.ctx, s.resource, 1)
	assert.Equal(s, !can.raise, errors.Is(err, errors.ErrUnsupported), "%v", err)
	_, err = l.Break(s.ctx, s.resource+"/free")
	assert.Equal(s, !can.breaks, errors.Is(err, errors.ErrUnsupported), "%v", err)
	_, err = l.Inspect(s.ctx, s.resource)
	assert.Equal(s, !can.inspect, errors.Is(err, errors.ErrUnsupported), "%v", err)
	require.NoError(s, lease.Renew(s.ctx, s.long))
	require.NoError(s, lease.Release(s.ctx))
}
