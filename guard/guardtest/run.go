package guardtest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// Prefix begins every resource name of the suite: the Resource of a table guard under test.
const Prefix = "guardtest/"

// patience is how long a call may take that has nothing to wait for.
var patience = 10 * time.Second

// Run tests the guards that fresh returns, each case with one of its own.
func Run(t *testing.T, fresh func(t *testing.T) guard.Guard) {
	t.Helper()
	runCases(t, func(t *testing.T) subject { return newSubject(fresh(t)) })
}

// Rows tells the suite that g keeps its marks in rows that must exist: claims for a resource without
// one are [fence.ErrNotFound]. The suite calls prepare before it uses a resource; prepare makes the
// resource's row, without a mark, or fails t.
func Rows(g guard.Guard, prepare func(t testing.TB, resource string)) guard.Guard {
	return rows{Guard: g, prepare: prepare}
}

type rows struct {
	guard.Guard
	prepare func(t testing.TB, resource string)
}

// subject is a guard under test.
type subject struct {
	guard   guard.Guard
	prepare func(t testing.TB, resource string) // nil: nothing to prepare
}

func newSubject(g guard.Guard) subject {
	if r, ok := g.(rows); ok {
		return subject{guard: r.Guard, prepare: r.prepare}
	}
	return subject{guard: g}
}

var guardCases = []struct {
	name string
	run  func(t *testing.T, s subject)
}{
	{"Rule", testRule},
	{"RuleModel", testModel},
	{"G03_RefusedClaimChangesNothing", testRefusedChangesNothing},
	{"G03_InvalidClaimChangesNothing", testInvalid},
	{"EndedContextChangesNothing", testEndedContext},
	{"ConcurrentClaims", testConcurrentClaims},
	{"SameTokenAtOnce", testSameTokenAtOnce},
	{"C40_EveryToken", testEveryToken},
	{"C44_VerdictIsDefinitive", testDefinitive},
	{"OddNames", testOddNames},
	{"C39_NoRow", testNoRow},
}

func runCases(t *testing.T, fresh func(t *testing.T) subject) {
	t.Helper()
	for _, c := range guardCases {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
}

// resource returns a name that was never used, and prepares it.
func (s subject) resource(t testing.TB, name string) string {
	r := newName(name)
	s.ready(t, r)
	return r
}

func (s subject) ready(t testing.TB, resource string) {
	if s.prepare != nil {
		s.prepare(t, resource)
	}
}

func newName(name string) string { return Prefix + uuid.NewString()[:13] + "/" + name }

// admit is one call, bounded by patience.
func (s subject) admit(t testing.TB, c fence.Claim) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.guard.Admit(ctx, c)
}

// admitted requires that c gets in.
func (s subject) admitted(t testing.TB, resource string, token fence.Token, holder uuid.UUID) {
	t.Helper()
	c := fence.Claim{Resource: resource, Token: token, Holder: holder}
	require.NoError(t, s.admit(t, c), "%v must be admitted", c)
}

// refused requires that c gets the verdict, by that mark.
func (s subject) refused(t testing.TB, resource string, token fence.Token, holder uuid.UUID, verdict error, mark fence.Token) {
	t.Helper()
	c := fence.Claim{Resource: resource, Token: token, Holder: holder}
	requireRejected(t, s.admit(t, c), c, verdict, mark)
}

// marked requires that the mark is (token, holder), by claims that leave it there.
func (s subject) marked(t testing.TB, resource string, token fence.Token, holder uuid.UUID) {
	t.Helper()
	if holder == uuid.Nil {
		s.refused(t, resource, token, uuid.New(), fence.ErrReplayed, token)
		return
	}
	s.refused(t, resource, token, uuid.New(), fence.ErrDuplicate, token)
	s.admitted(t, resource, token, holder)
}

func requireRejected(t require.TestingT, err error, c fence.Claim, verdict error, mark fence.Token) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	var rejected *fence.RejectedError
	require.ErrorAs(t, err, &rejected, "%v must be refused: %v", c, verdict)
	require.ErrorIs(t, err, verdict, "%v", c)
	assert.Equal(t, c, rejected.Claim, "the refused claim")
	assert.Equal(t, mark, rejected.Mark, "the mark that refused %v", c)
	for _, other := range []error{
		fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed,
		fence.ErrUnavailable, fence.ErrOutcomeUnknown, fence.ErrNotFound, fence.ErrInvalid,
		context.Canceled, context.DeadlineExceeded,
	} {
		if other != verdict {
			assert.NotErrorIs(t, err, other, "a verdict is nothing else")
		}
	}
}
