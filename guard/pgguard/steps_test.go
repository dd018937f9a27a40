//go:build !pgxmock

package pgguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// fake is a DB that is told what each step answers, and notes the steps.
type fake struct {
	pgguard.DB
	begin    []error // of BEGIN with the admission, one a try; the last one stays
	noTx     bool    // SendBatch doesn't know Batch.BeginTx
	commit   error
	rollback error
	onCommit func()

	steps []string
	ended error // of the context that the rollback was given
}

func (f *fake) SendBatch(_ context.Context, b *pgx.Batch) pgx.BatchResults {
	f.steps = append(f.steps, fmt.Sprintf("begin+%d", b.Len()-1))
	err := error(nil)
	if len(f.begin) > 0 {
		err = f.begin[0]
		if len(f.begin) > 1 {
			f.begin = f.begin[1:]
		}
	}
	return &fakeResults{fake: f, err: err}
}

type fakeResults struct {
	pgx.BatchResults
	fake *fake
	err  error
}

func (r *fakeResults) Close() error { return r.err }

func (r *fakeResults) Tx() pgx.Tx {
	if r.fake.noTx {
		return nil
	}
	return &fakeTx{fake: r.fake}
}

type fakeTx struct {
	pgx.Tx
	fake *fake
}

func (tx *fakeTx) Commit(context.Context) error {
	tx.fake.steps = append(tx.fake.steps, "commit")
	if tx.fake.onCommit != nil {
		tx.fake.onCommit()
	}
	return tx.fake.commit
}

func (tx *fakeTx) Rollback(ctx context.Context) error {
	tx.fake.steps = append(tx.fake.steps, "rollback")
	tx.fake.ended = ctx.Err()
	return tx.fake.rollback
}

func pgError(code string) error {
	return &pgconn.PgError{Severity: "ERROR", Code: code, Message: "told"}
}

func refusal(code string) error {
	return &pgconn.PgError{Severity: "ERROR", Code: code, Detail: `{"resource":"auction/7","token":"33","mark":"34"}`}
}

// notSent is an error of pgx from before anything was sent.
type notSent struct{ error }

func (notSent) SafeToRetry() bool { return true }

func (e notSent) Unwrap() error { return e.error }

func TestInTx_EachStepCanFail(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name  string
		fake  fake
		fn    error
		is    []error // all of them
		isNot []error
		steps []string
	}{
		{
			name:  "all well",
			steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "begin cannot connect", fake: fake{begin: []error{notSent{io.EOF}}},
			is: []error{fence.ErrUnavailable, io.EOF}, isNot: []error{fence.ErrOutcomeUnknown}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "begin loses its answer", fake: fake{begin: []error{io.ErrUnexpectedEOF}},
			is: []error{fence.ErrUnavailable}, isNot: []error{fence.ErrOutcomeUnknown}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "begin refused by a full server", fake: fake{begin: []error{pgError("53300")}},
			is: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "a db that cannot begin", fake: fake{noTx: true},
			is: []error{fence.ErrInvalid}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1"},
		},
		{
			name: "stale", fake: fake{begin: []error{refusal("RF001")}},
			is: []error{fence.ErrStale}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "duplicate", fake: fake{begin: []error{refusal("RF003")}},
			is: []error{fence.ErrDuplicate}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "replayed", fake: fake{begin: []error{refusal("RF004")}},
			is: []error{fence.ErrReplayed}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "conflict, then admitted", fake: fake{begin: []error{pgError("40001"), pgError("40001"), nil}},
			steps: []string{"begin+1", "rollback", "begin+1", "rollback", "begin+1", "fn", "commit"},
		},
		{
			name: "conflict, then stale", fake: fake{begin: []error{pgError("40001"), refusal("RF001")}},
			is: []error{fence.ErrStale}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "rollback", "begin+1", "rollback"},
		},
		{
			name: "cached statement gone, then admitted", fake: fake{begin: []error{pgError("26000"), nil}},
			steps: []string{"begin+1", "rollback", "begin+1", "fn", "commit"},
		},
		{
			name: "deadlock", fake: fake{begin: []error{pgError("40P01")}},
			is: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "rollback of a refusal fails", fake: fake{begin: []error{refusal("RF001")}, rollback: boom},
			is: []error{fence.ErrStale}, isNot: []error{boom}, steps: []string{"begin+1", "rollback"},
		},
		{
			name: "fn fails", fn: boom,
			is: []error{boom}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "rollback"},
		},
		{
			name: "fn fails and the rollback too", fn: boom, fake: fake{rollback: io.EOF},
			is: []error{boom}, isNot: []error{io.EOF}, steps: []string{"begin+1", "fn", "rollback"},
		},
		{
			name: "fn meets a conflict", fn: pgError("40001"),
			is: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "rollback"},
		},
		{
			name: "fn meets a constraint", fn: pgError("23505"),
			isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "rollback"},
		},
		{
			name: "fn is refused elsewhere", fn: fmt.Errorf("%w: %w", &fence.RejectedError{Verdict: fence.ErrStale}, pgError("40001")),
			is: []error{fence.ErrStale}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "rollback"},
		},
		{
			name: "fn's connection is closed", fn: fmt.Errorf("query: %w", pgconn.ErrConnClosed),
			is: []error{fence.ErrUnavailable, pgconn.ErrConnClosed}, steps: []string{"begin+1", "fn", "rollback"},
		},
		{
			name: "commit becomes a rollback", fake: fake{commit: pgx.ErrTxCommitRollback},
			is: []error{pgx.ErrTxCommitRollback}, isNot: []error{fence.ErrOutcomeUnknown, fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit loses its answer", fake: fake{commit: io.ErrUnexpectedEOF},
			is: []error{fence.ErrOutcomeUnknown, io.ErrUnexpectedEOF}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit is not sent", fake: fake{commit: notSent{io.EOF}},
			is: []error{fence.ErrUnavailable}, isNot: []error{fence.ErrOutcomeUnknown}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit meets a conflict", fake: fake{commit: pgError("40001")},
			is: []error{fence.ErrUnavailable}, isNot: []error{fence.ErrOutcomeUnknown}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit meets a constraint", fake: fake{commit: pgError("23505")},
			isNot: []error{fence.ErrOutcomeUnknown, fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit is refused by a trigger", fake: fake{commit: refusal("RF001")},
			is: []error{fence.ErrStale}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit comes after the hold timeout", fake: fake{commit: &pgconn.PgError{Severity: "FATAL", Code: "25P03"}},
			is: []error{fence.ErrUnavailable}, isNot: []error{fence.ErrOutcomeUnknown}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit through a pooler that lost its server", fake: fake{commit: &pgconn.PgError{Severity: "FATAL", Code: "08P01"}},
			is: []error{fence.ErrOutcomeUnknown}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit in a server that panics, in French", fake: fake{commit: &pgconn.PgError{Severity: "PANIK", SeverityUnlocalized: "PANIC", Code: "58030"}},
			is: []error{fence.ErrOutcomeUnknown}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit whose completion is unknown", fake: fake{commit: pgError("40003")},
			is: []error{fence.ErrOutcomeUnknown}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit whose resolution is unknown", fake: fake{commit: pgError("08007")},
			is: []error{fence.ErrOutcomeUnknown}, isNot: []error{fence.ErrUnavailable}, steps: []string{"begin+1", "fn", "commit"},
		},
		{
			name: "commit of what fn has ended", fake: fake{commit: pgx.ErrTxClosed},
			is: []error{pgx.ErrTxClosed}, isNot: []error{fence.ErrOutcomeUnknown}, steps: []string{"begin+1", "fn", "commit"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := row.fake
			g := newGuard(t, &f)
			c := claim("auction/7", 33)
			err := g.InTx(t.Context(), c, func(pgx.Tx) error {
				f.steps = append(f.steps, "fn")
				return row.fn
			})
			if row.is == nil && row.isNot == nil {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
			for _, is := range row.is {
				assert.ErrorIs(t, err, is)
			}
			for _, isNot := range row.isNot {
				assert.NotErrorIs(t, err, isNot)
			}
			if row.fn != nil {
				assert.ErrorIs(t, err, row.fn)
			}
			var rejected *fence.RejectedError
			if errors.As(err, &rejected) && row.fn == nil {
				assert.Equal(t, fence.RejectedError{Claim: c, Mark: 34, Verdict: rejected.Verdict}, *rejected)
			}
			assert.Equal(t, row.steps, f.steps)
		})
	}
}

func TestInTx_PanicRollsBackAndGoesOn(t *testing.T) {
	f := &fake{}
	assert.PanicsWithValue(t, "boom", func() {
		_ = newGuard(t, f).InTx(t.Context(), claim("auction/7", 33), func(pgx.Tx) error { panic("boom") })
	})
	assert.Equal(t, []string{"begin+1", "rollback"}, f.steps)
}

func TestInTx_EndlessConflictIsGivenUp(t *testing.T) {
	f := &fake{begin: []error{pgError("40001")}}
	err := newGuard(t, f).InTx(t.Context(), claim("auction/7", 33), func(pgx.Tx) error { t.Error("fn ran"); return nil })
	require.ErrorIs(t, err, fence.ErrUnavailable)
	require.NotErrorIs(t, err, fence.ErrStale)
	assert.Len(t, f.steps, 2*32)
}

// TestInTx_RollbackIsNotCancelled: it is sent also when the caller's context has ended, and no COMMIT.
func TestInTx_RollbackIsNotCancelled(t *testing.T) {
	f := &fake{}
	ctx, cancel := context.WithCancel(t.Context())
	err := newGuard(t, f).InTx(ctx, claim("auction/7", 33), func(pgx.Tx) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, fence.ErrUnavailable)
	assert.Equal(t, []string{"begin+1", "rollback"}, f.steps)
	assert.NoError(t, f.ended)
}

// TestC43_ContextThatEndsDuringCommit: pgx may say no more than that the connection was closed.
func TestC43_ContextThatEndsDuringCommit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{commit: io.ErrUnexpectedEOF, onCommit: cancel}
	err := newGuard(t, f).InTx(ctx, claim("auction/7", 33), nothing)
	require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, []string{"begin+1", "commit"}, f.steps, "nothing is sent after it")
}

// TestRefusal_WithoutDetail still has its verdict, and one that tells of another claim names that.
func TestRefusal_Detail(t *testing.T) {
	c := claim("auction/7", 33)
	for detail, want := range map[string]fence.RejectedError{
		``:                           {Claim: c, Verdict: fence.ErrStale},
		`{"resource":"auction/7"`:    {Claim: c, Verdict: fence.ErrStale},
		`{"token":33,"mark":4.6e18}`: {Claim: c, Verdict: fence.ErrStale},
		`{"resource":"auction/7","token":"33","mark":"9223372036854775807"}`: {Claim: c, Mark: 9223372036854775807, Verdict: fence.ErrStale},
		`{"resource":"seat/1","token":"5","mark":"6"}`: {
			Claim: fence.Claim{Resource: "seat/1", Token: 5}, Mark: 6, Verdict: fence.ErrStale,
		},
	} {
		f := &fake{begin: []error{&pgconn.PgError{Severity: "ERROR", Code: "RF001", Detail: detail}}}
		var rejected *fence.RejectedError
		require.ErrorAs(t, newGuard(t, f).InTx(t.Context(), c, nothing), &rejected, detail)
		assert.Equal(t, want, *rejected, detail)
	}
}
