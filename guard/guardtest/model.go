package guardtest

import (
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ringfence/ringfence/fence"
)

// model is the rule in its plainest form. It leaves guard.Mark.Judge out on purpose: guards use that.
type model map[string]struct {
	token  fence.Token
	holder uuid.UUID
}

// judge returns nil or the verdict, by
//
//	admitted  ⇔  mark.token < claim.token
//	          or (mark.token = claim.token and mark.holder = claim.holder and the holder is not zero)
func (m model) judge(c fence.Claim) error {
	mark := m[c.Resource]
	if mark.token < c.Token || (mark.token == c.Token && mark.holder == c.Holder && c.Holder != none) {
		return nil
	}
	if mark.token > c.Token {
		return fence.ErrStale
	}
	if mark.holder == none || c.Holder == none {
		return fence.ErrReplayed
	}
	return fence.ErrDuplicate
}

func (m model) raise(c fence.Claim) {
	mark := m[c.Resource]
	mark.token, mark.holder = c.Token, c.Holder
	m[c.Resource] = mark
}

// claims draws claims that meet often: few resources and holders, tokens close together, some of them
// at the end of the range.
func claims(resources []string) *rapid.Generator[fence.Claim] {
	holders := []uuid.UUID{none, uuid.New(), uuid.New(), uuid.New()}
	token := rapid.OneOf(rapid.Int64Range(1, 6), rapid.Int64Range(1, 6), rapid.Int64Range(math.MaxInt64-2, math.MaxInt64))
	return rapid.Custom(func(t *rapid.T) fence.Claim {
		return fence.Claim{
			Resource: rapid.SampledFrom(resources).Draw(t, "resource"),
			Token:    fence.Token(token.Draw(t, "token")),
			Holder:   holders[rapid.IntRange(0, len(holders)-1).Draw(t, "holder")],
		}
	})
}

// mostSteps bounds a random sequence: a hundred of them are run, and a step may be a transaction.
const mostSteps = 20

func testModel(t *testing.T, s subject) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := claims([]string{s.resource(t, "a"), s.resource(t, "b")})
		m := model{}
		for _, c := range rapid.SliceOfN(draw, 1, mostSteps).Draw(rt, "claims") {
			requireModelled(rt, m, c, s.admit(t, c))
		}
	})
}

// requireModelled requires that err is the model's answer to c.
func requireModelled(rt *rapid.T, m model, c fence.Claim, err error) {
	if verdict := m.judge(c); verdict != nil {
		requireRejected(rt, err, c, verdict, m[c.Resource].token)
		return
	}
	require.NoError(rt, err, "%v must be admitted", c)
	m.raise(c)
}
