package guardtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/internal/testenv"
)

// brokenRun is set in the process that runs the suite on broken guards.
const brokenRun = "GUARDTEST_BROKEN_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(brokenRun) != "" {
		os.Exit(m.Run()) // broken guards leave goroutines waiting
	}
	testenv.Main(m)
}

func TestRun_PassesARightGuard(t *testing.T) {
	Run(t, func(*testing.T) guard.Guard { return newFake(faults{}) })
}

func TestRun_PassesARightGuardOfRows(t *testing.T) {
	Run(t, func(*testing.T) guard.Guard { return newFake(faults{rowsExist: true}).asGuard() })
}

func TestRunDoer_PassesARightDoer(t *testing.T) {
	for name, h := range map[string]func(*testing.T) DoerHarness{
		"KeepsMark":     func(*testing.T) DoerHarness { return newFake(faults{}).harness() },
		"Transactional": func(*testing.T) DoerHarness { return newFake(faults{transactional: true}).harness() },
		"Rows":          func(*testing.T) DoerHarness { return newFake(faults{transactional: true, rowsExist: true}).harness() },
		"InMemory":      func(*testing.T) DoerHarness { return DoerHarness{Guard: newFake(faults{})} },
		"SingleWriter": func(*testing.T) DoerHarness {
			h := newFake(faults{oneTurnForAll: true}).harness()
			h.SingleWriter = true
			return h
		},
	} {
		t.Run(name, func(t *testing.T) { RunDoer(t, h) })
	}
}

// broken are guards with one fault each, and the case that must find it.
var broken = []struct {
	name  string
	found string
	guard faults
}{
	{"LessOrEqual", "Rule/EqualOtherHolder", faults{judge: func(m guard.Mark, c fence.Claim) error {
		if c.Token == m.Token {
			return nil
		}
		return m.Judge(c)
	}}},
	{"OnceRuleOnly", "Rule/EqualSameHolder", faults{judge: func(m guard.Mark, c fence.Claim) error {
		return guard.Mark{Token: m.Token}.Judge(c)
	}}},
	{"ZeroHoldersMatch", "Rule/EqualNoHolders", faults{judge: func(m guard.Mark, c fence.Claim) error {
		if c.Token == m.Token && c.Holder == m.Holder {
			return nil
		}
		return m.Judge(c)
	}}},
	{"AdmitsAll", "Rule/Below", faults{judge: func(guard.Mark, fence.Claim) error { return nil }}},
	{"LaterStaleAdmitted", "RuleModel", faults{judge: func(m guard.Mark, c fence.Claim) error {
		if m.Token > 1<<62 && c.Token == 3 {
			return nil
		}
		return m.Judge(c)
	}}},
	{"RefusalTakesHolder", "G03_RefusedClaimChangesNothing", faults{afterRefuse: func(m *guard.Mark, c fence.Claim) {
		if c.Token == m.Token {
			m.Holder = c.Holder
		}
	}}},
	{"RefusalLowersMark", "G03_RefusedClaimChangesNothing", faults{afterRefuse: func(m *guard.Mark, c fence.Claim) { m.Token = c.Token }}},
	{"RetryableVerdict", "C44_VerdictIsDefinitive", faults{refusal: func(r *fence.RejectedError) error { return errors.Join(r, fence.ErrUnavailable) }}},
	{"NoMarkInVerdict", "Rule/Below", faults{refusal: func(r *fence.RejectedError) error {
		return &fence.RejectedError{Claim: r.Claim, Verdict: r.Verdict}
	}}},
	{"BareVerdict", "Rule/Below", faults{refusal: func(r *fence.RejectedError) error { return r.Verdict }}},
	{"CheckAndRaiseApart", "SameTokenAtOnce/TwoHolders", faults{checkAndRaiseApart: true}},
	{"CheckAndRaiseApart/History", "ConcurrentClaims", faults{checkAndRaiseApart: true}},
	{"Int32Tokens", "C40_EveryToken", faults{token: func(t fence.Token) fence.Token { return fence.Token(int32(t)) }}},
	{"DoubleTokens", "C40_EveryToken", faults{token: func(t fence.Token) fence.Token {
		if t > 1<<62 {
			return t
		}
		return fence.Token(float64(t))
	}}},
	{"FoldsCase", "OddNames", faults{name: strings.ToLower}},
	{"TrimsTrailingSpace", "OddNames", faults{name: func(s string) string { return strings.TrimRight(s, " ") }}},
	{"CutsNamesAt255", "OddNames", faults{name: func(s string) string { return s[:min(len(s), 255)] }}},
	{"DropsQuotes", "OddNames", faults{name: func(s string) string { return strings.ReplaceAll(s, "'", "") }}},
	{"DropsLeadingZeros", "OddNames", faults{name: func(s string) string { return strings.ReplaceAll(s, "/0", "/") }}},
	{"AnyClaim", "G03_InvalidClaimChangesNothing", faults{anyClaim: true}},
	{"IgnoresContext", "EndedContextChangesNothing", faults{ignoresContext: true}},
	{"MakesMissingRow", "C39_NoRow", faults{rowsExist: true, makesRows: true}},
	{"AdmitsWithoutRow", "C39_NoRow", faults{rowsExist: true, rowless: true}},
	{"MissingRowIsStale", "C39_NoRow", faults{rowsExist: true, missingIsStale: true}},
}

// brokenDoers likewise.
var brokenDoers = []struct {
	name  string
	found string
	make  func() DoerHarness
}{
	{"WritesAfterItsTurn", "Do/C42_OvertakenByDo", harness(faults{outsideTurn: true})},
	{"WritesAfterItsTurn/Admit", "Do/C42_OvertakenByAdmit", harness(faults{outsideTurn: true})},
	{"WritesAfterItsTurn/Serial", "Do/Serial", harness(faults{outsideTurn: true})},
	{"RunsFunctionTwice", "Do/G03_FailedFunction", harness(faults{runsTwice: true})},
	{"SwallowsError", "Do/G03_FailedFunction", harness(faults{result: func(error) error { return nil }})},
	{"FlattensError", "Do/G03_FailedFunction", harness(faults{result: func(err error) error {
		if err != nil {
			return errors.New(err.Error())
		}
		return nil
	}})},
	{"LowersMarkOnFailure", "Do/G03_FailedFunction", harness(faults{forgetsMark: true})},
	{"LowersMarkOnFailure/Model", "Do/DoModel", harness(faults{forgetsMark: true})},
	{"NotTransactional", "Do/G03_FailedFunction", func() DoerHarness {
		h := newFake(faults{}).harness()
		h.Transactional = true
		return h
	}},
	{"PanicKeepsTurn", "Do/C54_PanicGoesOn", harness(faults{keepsTurnOnPanic: true})},
	{"SwallowsPanic", "Do/C54_PanicGoesOn", harness(faults{swallowsPanic: true})},
	{"GoexitKeepsTurn", "Do/C54_GoroutineEnds", harness(faults{keepsOnGoexit: true})},
	{"RunsWhenRefused", "Do/Rule/Below", harness(faults{runsWhenRefused: true})},
	{"BackgroundContext", "Do/ContextReachesFunction", harness(faults{backgroundContext: true})},
	{"WaitIgnoresContext", "Do/WaitingEndsWithContext", harness(faults{waitIgnoresContext: true})},
	{"OneTurnForAll", "Do/OtherResourcesGoOn", harness(faults{oneTurnForAll: true})},
	{"NestedWaits", "Do/G09_NestedCallJoins", harness(faults{nestedWaits: true})},
	{"SwallowsNestedRefusal", "Do/G03_NestedRefusal", harness(faults{transactional: true, swallowsRefusal: true})},
}

func harness(f faults) func() DoerHarness {
	return func() DoerHarness { return newFake(f).harness() }
}

// The suite is worth what it finds. Failing cases need a process of their own; it runs the whole
// suite on every broken guard, and each must fail in the case that is there for its fault.
func TestSuite_FindsBrokenGuards(t *testing.T) {
	if os.Getenv(brokenRun) != "" {
		patience = 300 * time.Millisecond
		for _, b := range broken {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				Run(t, func(*testing.T) guard.Guard { return newFake(b.guard).asGuard() })
			})
		}
		for _, b := range brokenDoers {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				RunDoer(t, func(*testing.T) DoerHarness { return b.make() })
			})
		}
		return
	}

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuite_FindsBrokenGuards$", "-test.v", "-test.timeout=5m", "-test.parallel=16",
		"-rapid.nofailfile", "-rapid.shrinktime=1ms")
	cmd.Env = append(os.Environ(), brokenRun+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	failed := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: TestSuite_FindsBrokenGuards/"); ok {
			name, _, _ = strings.Cut(name, " ")
			failed[name] = true
		}
	}
	for _, b := range broken {
		assert.True(t, failed[b.name+"/"+b.found], "%s not found by %s", b.name, b.found)
	}
	for _, b := range brokenDoers {
		assert.True(t, failed[b.name+"/"+b.found], "%s not found by %s", b.name, b.found)
	}
	assert.NotContains(t, string(out), "panic:", "a broken guard must fail its case, not the run")
	if t.Failed() && testing.Verbose() {
		t.Logf("%s", out)
	}
}

func TestCheckHistory(t *testing.T) {
	ann, bob := uuid.New(), uuid.New()
	at := func(start, end int64, token fence.Token, holder uuid.UUID, mark fence.Token, verdict error) attempt {
		c := fence.Claim{Resource: "r", Token: token, Holder: holder}
		a := attempt{claim: c, start: start, end: end}
		if verdict != nil {
			a.err = &fence.RejectedError{Claim: c, Mark: mark, Verdict: verdict}
		}
		return a
	}
	for _, row := range []struct {
		name    string
		fault   string // empty: none
		history []attempt
	}{
		{"nothing", "", nil},
		{"in order", "", []attempt{at(1, 2, 33, ann, 0, nil), at(3, 4, 34, bob, 0, nil), at(5, 6, 33, ann, 34, fence.ErrStale)}},
		{"overlapping, either order", "", []attempt{at(1, 4, 34, bob, 0, nil), at(2, 3, 33, ann, 0, nil)}},
		{"older after newer", "was admitted after", []attempt{at(1, 2, 34, bob, 0, nil), at(3, 4, 33, ann, 0, nil)}},
		{"both holders", "both admitted", []attempt{at(1, 4, 34, bob, 0, nil), at(2, 3, 34, ann, 0, nil)}},
		{"twice without holder", "admitted twice", []attempt{at(1, 2, 34, none, 0, nil), at(3, 4, 34, none, 0, nil)}},
		{"twice with holder", "", []attempt{at(1, 2, 34, ann, 0, nil), at(3, 4, 34, ann, 0, nil)}},
		{"stale by a later one", "nothing explains", []attempt{at(1, 2, 33, ann, 34, fence.ErrStale), at(3, 4, 34, bob, 0, nil)}},
		{"stale by nobody", "nothing explains", []attempt{at(1, 2, 33, ann, 35, fence.ErrStale), at(1, 4, 34, bob, 0, nil)}},
		{"an old mark", "was refused by the mark", []attempt{
			at(1, 2, 34, bob, 0, nil), at(3, 4, 35, bob, 0, nil), at(5, 6, 33, ann, 34, fence.ErrStale),
		}},
		{"duplicate of itself", "nothing explains", []attempt{at(1, 2, 34, ann, 0, nil), at(3, 4, 34, ann, 34, fence.ErrDuplicate)}},
		{"replay with both holders", "nothing explains", []attempt{at(1, 2, 34, ann, 0, nil), at(3, 4, 34, bob, 34, fence.ErrReplayed)}},
		{"replay", "", []attempt{at(1, 2, 34, ann, 0, nil), at(3, 4, 34, none, 34, fence.ErrReplayed)}},
		{"the greatest left out", "nothing explains", []attempt{at(1, 4, 34, none, 34, fence.ErrReplayed)}},
		{"another error", "neither admitted nor refused", []attempt{{claim: fence.Claim{Resource: "r", Token: 1}, err: context.Canceled}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := checkHistory(row.history)
			if row.fault == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, row.fault, fmt.Sprint(row.history))
		})
	}
}
