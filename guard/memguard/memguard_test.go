package memguard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/guardtest"
	"github.com/ringfence/ringfence/guard/memguard"
	"github.com/ringfence/ringfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestConformance(t *testing.T) {
	guardtest.RunDoer(t, func(*testing.T) guardtest.DoerHarness {
		return guardtest.DoerHarness{Guard: memguard.New(), Nests: true}
	})
}

func claim(resource string, token fence.Token) fence.Claim {
	return fence.Claim{Resource: resource, Token: token, Holder: uuid.New()}
}

func TestMark_ShowsTheNewestClaim(t *testing.T) {
	g := memguard.New()
	_, ok := g.Mark("auction/7")
	assert.False(t, ok)

	newest := claim("auction/7", 34)
	require.NoError(t, g.Admit(t.Context(), newest))
	require.ErrorIs(t, g.Admit(t.Context(), claim("auction/7", 33)), fence.ErrStale)
	mark, ok := g.Mark("auction/7")
	assert.True(t, ok)
	assert.Equal(t, guard.Mark{Token: 34, Holder: newest.Holder}, mark)
}

func TestMark_DoesNotWaitForAFunction(t *testing.T) {
	g, c := memguard.New(), claim("auction/7", 34)
	require.NoError(t, g.Do(t.Context(), c, func(context.Context) error {
		mark, ok := g.Mark(c.Resource)
		assert.True(t, ok, "the mark is raised before the function runs")
		assert.Equal(t, c.Token, mark.Token)
		return nil
	}))
}

func TestG03_RefusedClaimLeavesNothing(t *testing.T) {
	g := memguard.New()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.Admit(t.Context(), claim("auction/7", 0)), fence.ErrInvalid)
	require.ErrorIs(t, g.Admit(ended, claim("auction/7", 1)), context.Canceled)
	require.ErrorIs(t, g.Do(ended, claim("auction/7", 1), nil), context.Canceled)
	_, ok := g.Mark("auction/7")
	assert.False(t, ok)
}

// A call that gives up waiting is unavailable and says why; its turn goes to the next in line.
func TestDo_WaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := memguard.New()
		resume, first := make(chan struct{}), make(chan error, 1)
		go func() {
			first <- g.Do(t.Context(), claim("auction/7", 33), func(context.Context) error {
				<-resume
				return nil
			})
		}()
		synctest.Wait()

		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gaveUp, patient := make(chan error, 1), make(chan error, 1)
		go func() { gaveUp <- g.Admit(brief, claim("auction/7", 35)) }()
		go func() { patient <- g.Admit(t.Context(), claim("auction/7", 34)) }()
		err := <-gaveUp
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, fence.ErrUnavailable)

		close(resume)
		require.NoError(t, <-first)
		require.NoError(t, <-patient)
		mark, _ := g.Mark("auction/7")
		assert.EqualValues(t, 34, mark.Token, "the call that gave up must not raise the mark")
	})
}

// The context of a function outlives the function when a goroutine keeps it. It then no longer lets
// its bearer past a call that has its turn.
func TestDo_ContextOfAnEndedFunctionWaitsLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := memguard.New(), claim("auction/7", 33)
		var kept context.Context
		require.NoError(t, g.Do(t.Context(), c, func(ctx context.Context) error {
			kept = ctx
			return nil
		}))
		resume, running := make(chan struct{}), make(chan error, 1)
		go func() {
			running <- g.Do(t.Context(), c, func(context.Context) error {
				<-resume
				return nil
			})
		}()
		late := make(chan error, 1)
		synctest.Wait()
		go func() { late <- g.Admit(kept, c) }()
		synctest.Wait()
		select {
		case err := <-late:
			require.Fail(t, "did not wait", "%v", err)
		default:
		}
		close(resume)
		require.NoError(t, errors.Join(<-running, <-late))
	})
}

func TestDo_NestedCallForAnotherResource(t *testing.T) {
	g := memguard.New()
	require.NoError(t, g.Do(t.Context(), claim("auction/7", 1), func(ctx context.Context) error {
		return g.Do(ctx, claim("auction/8", 1), func(ctx context.Context) error {
			return g.Admit(ctx, claim("auction/7", 2)) // joins the outer call
		})
	}))
	mark, _ := g.Mark("auction/7")
	assert.EqualValues(t, 2, mark.Token)
}
