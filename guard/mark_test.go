package guard_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	ann = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	bob = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
)

func TestMark_JudgeAppliesTheRule(t *testing.T) {
	for _, row := range []struct {
		name    string
		mark    guard.Mark
		token   fence.Token
		holder  uuid.UUID
		verdict error
	}{
		{"no mark", guard.Mark{}, 1, ann, nil},
		{"no mark, no holder", guard.Mark{}, 1, uuid.Nil, nil},
		{"above", guard.Mark{Token: 33, Holder: ann}, 34, bob, nil},
		{"above, same holder", guard.Mark{Token: 33, Holder: ann}, 34, ann, nil},
		{"above, no holder", guard.Mark{Token: 33, Holder: ann}, 34, uuid.Nil, nil},
		{"equal, same holder", guard.Mark{Token: 33, Holder: ann}, 33, ann, nil},
		{"equal, other holder", guard.Mark{Token: 33, Holder: ann}, 33, bob, fence.ErrDuplicate},
		{"equal, claim without holder", guard.Mark{Token: 33, Holder: ann}, 33, uuid.Nil, fence.ErrReplayed},
		{"equal, mark without holder", guard.Mark{Token: 33}, 33, ann, fence.ErrReplayed},
		{"equal, no holder anywhere", guard.Mark{Token: 33}, 33, uuid.Nil, fence.ErrReplayed},
		{"below, other holder", guard.Mark{Token: 34, Holder: bob}, 33, ann, fence.ErrStale},
		{"below, same holder", guard.Mark{Token: 34, Holder: ann}, 33, ann, fence.ErrStale},
		{"below, no holder", guard.Mark{Token: 34}, 33, uuid.Nil, fence.ErrStale},
		{"the greatest token", guard.Mark{Token: math.MaxInt64 - 1, Holder: ann}, math.MaxInt64, bob, nil},
		{"above what a double holds", guard.Mark{Token: 1<<53 + 1, Holder: ann}, 1 << 53, ann, fence.ErrStale},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := fence.Claim{Resource: "r", Token: row.token, Holder: row.holder}
			err := row.mark.Judge(c)
			if row.verdict == nil {
				require.NoError(t, err)
				return
			}
			var rejected *fence.RejectedError
			require.ErrorAs(t, err, &rejected)
			assert.Equal(t, fence.RejectedError{Claim: c, Mark: row.mark.Token, Verdict: row.verdict}, *rejected)
			assert.ErrorIs(t, err, row.verdict)
		})
	}
}

// The rule as DESIGN states it, and what follows from it: exactly one answer, and a mark raised to an
// admitted claim never lets an older token or the same token of another holder in again.
func TestMark_JudgeProperty(t *testing.T) {
	token := rapid.OneOf(rapid.Int64Range(1, 4), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64), rapid.Int64Range(1, math.MaxInt64))
	holder := rapid.SampledFrom([]uuid.UUID{uuid.Nil, ann, bob})
	rapid.Check(t, func(t *rapid.T) {
		mark := guard.Mark{Token: fence.Token(token.Draw(t, "mark")), Holder: holder.Draw(t, "mark holder")}
		c := fence.Claim{Resource: "r", Token: fence.Token(token.Draw(t, "token")), Holder: holder.Draw(t, "holder")}

		admitted := mark.Token < c.Token || (mark.Token == c.Token && mark.Holder == c.Holder && c.Holder != uuid.Nil)
		err := mark.Judge(c)
		if admitted != (err == nil) {
			t.Fatalf("mark %+v, %v: admitted must be %v, got %v", mark, c, admitted, err)
		}
		verdicts := 0
		for _, v := range []error{fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed} {
			if errors.Is(err, v) {
				verdicts++
			}
		}
		if !admitted && verdicts != 1 {
			t.Fatalf("mark %+v, %v: want one verdict, got %v", mark, c, err)
		}
		if admitted {
			raised := guard.Mark{Token: c.Token, Holder: c.Holder}
			old := fence.Claim{Resource: "r", Token: mark.Token, Holder: mark.Holder}
			if mark.Token < c.Token && !errors.Is(raised.Judge(old), fence.ErrStale) {
				t.Fatalf("mark %+v raised to %+v still lets %v in", mark, raised, old)
			}
		}
	})
}
