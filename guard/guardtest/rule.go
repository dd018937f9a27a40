package guardtest

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
)

// none is the holder of a claim that has none.
var none = uuid.Nil

func testRule(t *testing.T, s subject) {
	ann, bob := uuid.New(), uuid.New()
	for _, row := range []struct {
		name    string
		mark    fence.Token // 0: no mark
		marker  uuid.UUID
		token   fence.Token
		holder  uuid.UUID
		verdict error
	}{
		{"NoMark", 0, none, 1, ann, nil},
		{"NoMarkNoHolder", 0, none, 1, none, nil},
		{"Above", 33, ann, 34, bob, nil},
		{"AboveSameHolder", 33, ann, 34, ann, nil},
		{"AboveClaimWithoutHolder", 33, ann, 34, none, nil},
		{"AboveMarkWithoutHolder", 33, none, 34, ann, nil},
		{"AboveNoHolders", 33, none, 34, none, nil},
		{"EqualSameHolder", 33, ann, 33, ann, nil},
		{"EqualOtherHolder", 33, ann, 33, bob, fence.ErrDuplicate},
		{"EqualClaimWithoutHolder", 33, ann, 33, none, fence.ErrReplayed},
		{"EqualMarkWithoutHolder", 33, none, 33, ann, fence.ErrReplayed},
		{"EqualNoHolders", 33, none, 33, none, fence.ErrReplayed},
		{"Below", 34, bob, 33, ann, fence.ErrStale},
		{"BelowSameHolder", 34, ann, 33, ann, fence.ErrStale},
		{"BelowClaimWithoutHolder", 34, ann, 33, none, fence.ErrStale},
		{"BelowMarkWithoutHolder", 34, none, 33, ann, fence.ErrStale},
		{"BelowNoHolders", 34, none, 33, none, fence.ErrStale},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := s.resource(t, "rule")
			if row.mark > 0 {
				s.admitted(t, r, row.mark, row.marker)
			}
			if row.verdict != nil {
				s.refused(t, r, row.token, row.holder, row.verdict, row.mark)
				s.marked(t, r, row.mark, row.marker)
				return
			}
			s.admitted(t, r, row.token, row.holder)
			s.marked(t, r, row.token, row.holder)
			if row.token > 1 {
				s.refused(t, r, row.token-1, ann, fence.ErrStale, row.token)
			}
		})
	}
}

func testRefusedChangesNothing(t *testing.T, s subject) {
	r, neighbour := s.resource(t, "auction/7"), s.resource(t, "auction/8")
	ann, bob := uuid.New(), uuid.New()
	s.admitted(t, neighbour, 5, bob)
	s.admitted(t, r, 33, ann)
	s.admitted(t, r, 34, bob)

	for range 2 {
		s.refused(t, r, 33, ann, fence.ErrStale, 34)
		s.refused(t, r, 1, none, fence.ErrStale, 34)
		s.refused(t, r, 34, ann, fence.ErrDuplicate, 34)
		s.refused(t, r, 34, none, fence.ErrReplayed, 34)
		s.marked(t, r, 34, bob)
	}
	s.marked(t, neighbour, 5, bob)
	s.admitted(t, r, 35, ann)
	s.refused(t, r, 34, bob, fence.ErrStale, 35)
}

func testInvalid(t *testing.T, s subject) {
	ann := uuid.New()
	for _, marked := range []bool{false, true} {
		r := s.resource(t, "invalid")
		if marked {
			s.admitted(t, r, 5, ann)
		}
		for _, token := range []fence.Token{0, -1, math.MinInt64} {
			err := s.admit(t, fence.Claim{Resource: r, Token: token, Holder: ann})
			require.ErrorIs(t, err, fence.ErrInvalid, "token %d", int64(token))
			assert.Contains(t, err.Error(), token.String(), "the error names the value")
		}
		if marked {
			s.marked(t, r, 5, ann)
		} else {
			s.admitted(t, r, 1, ann)
		}
	}
	for name, resource := range map[string]string{
		"empty": "", "513 bytes": Prefix + strings.Repeat("a", fence.MaxResource+1-len(Prefix)),
		"not UTF-8": Prefix + "\xff", "NUL": Prefix + "a\x00b", "newline": Prefix + "a\n", "DEL": Prefix + "a\x7f", "C1": Prefix + "a\u0085",
	} {
		require.ErrorIs(t, s.admit(t, fence.Claim{Resource: resource, Token: 1, Holder: ann}), fence.ErrInvalid, name)
	}
}

func testEndedContext(t *testing.T, s subject) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancelLate()
	ann, bob := uuid.New(), uuid.New()
	for _, row := range []struct {
		ctx  context.Context
		want error
	}{{canceled, context.Canceled}, {late, context.DeadlineExceeded}} {
		unmarked, marked := s.resource(t, "unmarked"), s.resource(t, "marked")
		s.admitted(t, marked, 5, ann)
		for _, r := range []string{unmarked, marked} {
			require.ErrorIs(t, s.guard.Admit(row.ctx, fence.Claim{Resource: r, Token: 9, Holder: bob}), row.want)
		}
		s.marked(t, marked, 5, ann)
		s.admitted(t, unmarked, 1, ann)
	}
}

func testEveryToken(t *testing.T, s subject) {
	r := s.resource(t, "tokens")
	ann, bob := uuid.New(), uuid.New()
	last := fence.Token(0)
	for _, token := range []fence.Token{
		1, 9, 10, 99, 100, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32,
		1<<53 - 1, 1 << 53, 1<<53 + 1, 99999999999999999, 100000000000000000, math.MaxInt64 - 1, math.MaxInt64,
	} {
		s.admitted(t, r, token, ann)
		s.refused(t, r, token, bob, fence.ErrDuplicate, token)
		if last > 0 {
			s.refused(t, r, last, ann, fence.ErrStale, token)
		}
		last = token
	}
	s.marked(t, r, math.MaxInt64, ann)

	first := s.resource(t, "the greatest first")
	s.admitted(t, first, math.MaxInt64, bob)
	s.refused(t, first, math.MaxInt64-1, bob, fence.ErrStale, math.MaxInt64)
}

func testDefinitive(t *testing.T, s subject) {
	r := s.resource(t, "definitive")
	ann, bob := uuid.New(), uuid.New()
	s.admitted(t, r, 34, bob)
	for range 5 {
		s.refused(t, r, 33, ann, fence.ErrStale, 34)
		s.refused(t, r, 34, ann, fence.ErrDuplicate, 34)
		s.refused(t, r, 34, none, fence.ErrReplayed, 34)
	}
}

func testNoRow(t *testing.T, s subject) {
	if s.prepare == nil {
		return // its marks need no row
	}
	ann := uuid.New()
	missing := newName("missing")
	for range 2 { // the first one must not make the row
		err := s.admit(t, fence.Claim{Resource: missing, Token: 34, Holder: ann})
		require.ErrorIs(t, err, fence.ErrNotFound)
		require.NotErrorIs(t, err, fence.ErrStale)
	}
	s.ready(t, missing)
	s.admitted(t, missing, 1, ann)
}
