package guardtest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

func testConcurrentClaims(t *testing.T, s subject) {
	const workers, each = 8, 40
	r := s.resource(t, "concurrent")
	holders := []uuid.UUID{none, uuid.New(), uuid.New(), uuid.New()}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	var clock atomic.Int64
	history := make([]attempt, workers*each)
	atOnce(workers, func(w int) {
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		for i := range each {
			a := &history[w*each+i]
			// Tokens rise, but close together, so that each is claimed several times and late.
			a.claim = fence.Claim{Resource: r, Token: fence.Token(i + 1 + random.IntN(6)), Holder: holders[random.IntN(len(holders))]}
			a.start = clock.Add(1)
			a.err = s.admit(t, a.claim)
			a.end = clock.Add(1)
		}
	})
	require.NoError(t, checkHistory(history))

	var last fence.Claim
	for _, a := range history {
		if a.err == nil && a.claim.Token > last.Token {
			last = a.claim
		}
	}
	s.marked(t, r, last.Token, last.Holder)
}

func testSameTokenAtOnce(t *testing.T, s subject) {
	const rounds = 40
	t.Run("TwoHolders", func(t *testing.T) {
		r := s.resource(t, "two holders")
		for token := fence.Token(1); token <= rounds; token++ {
			holders, errs := [2]uuid.UUID{uuid.New(), uuid.New()}, [2]error{}
			atOnce(2, func(i int) {
				errs[i] = s.admit(t, fence.Claim{Resource: r, Token: token, Holder: holders[i]})
			})
			winner := 0
			if errs[0] != nil {
				winner = 1
			}
			require.NoError(t, errs[winner], "token %v: nobody got in", token)
			loser := fence.Claim{Resource: r, Token: token, Holder: holders[1-winner]}
			requireRejected(t, errs[1-winner], loser, fence.ErrDuplicate, token)
			s.admitted(t, r, token, holders[winner])
		}
	})
	t.Run("NoHolder", func(t *testing.T) {
		r := s.resource(t, "no holder")
		for token := fence.Token(1); token <= rounds/4; token++ {
			var errs [4]error
			c := fence.Claim{Resource: r, Token: token}
			atOnce(len(errs), func(i int) { errs[i] = s.admit(t, c) })
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				requireRejected(t, err, c, fence.ErrReplayed, token)
			}
			require.Equal(t, 1, won, "token %v may write once", token)
		}
	})
	t.Run("OneHolder", func(t *testing.T) {
		r := s.resource(t, "one holder")
		for token := fence.Token(1); token <= rounds/4; token++ {
			c := fence.Claim{Resource: r, Token: token, Holder: uuid.New()}
			atOnce(4, func(int) { assert.NoError(t, s.admit(t, c)) })
		}
	})
}

// atOnce runs f(0) … f(n-1) at the same time and waits for all.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
