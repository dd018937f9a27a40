//go:build pgxmock

package pgguard_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pashagolub/pgxmock/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// These tests run on a mock, with the newest pgx that it compiles with: see internal/lanes.

func newMock(t *testing.T) pgxmock.PgxPoolIface {
	t.Helper()
	mock, err := pgxmock.NewPool()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, mock.ExpectationsWereMet()) })
	return mock
}

func told(severity, code, detail string) error {
	return &pgconn.PgError{Severity: severity, Code: code, Message: "told", Detail: detail}
}

const markIs34 = `{"resource":"auction/7","token":"33","mark":"34"}`

// outcomes are errors of a statement that is not committed yet, and what they mean.
var outcomes = map[string]struct {
	err error
	is  error
}{
	"stale":           {told("ERROR", "RF001", markIs34), fence.ErrStale},
	"duplicate":       {told("ERROR", "RF003", markIs34), fence.ErrDuplicate},
	"replayed":        {told("ERROR", "RF004", markIs34), fence.ErrReplayed},
	"conflict":        {told("ERROR", "40001", ""), fence.ErrUnavailable},
	"deadlock":        {told("ERROR", "40P01", ""), fence.ErrUnavailable},
	"lock timeout":    {told("ERROR", "55P03", ""), fence.ErrUnavailable},
	"cancelled":       {told("ERROR", "57014", ""), fence.ErrUnavailable},
	"shutdown":        {told("FATAL", "57P01", ""), fence.ErrUnavailable},
	"hold timeout":    {told("FATAL", "25P03", ""), fence.ErrUnavailable},
	"standby":         {told("ERROR", "25006", ""), fence.ErrUnavailable},
	"disk full":       {told("ERROR", "53100", ""), fence.ErrUnavailable},
	"connection lost": {io.ErrUnexpectedEOF, fence.ErrUnavailable},
	"deadline":        {context.DeadlineExceeded, fence.ErrUnavailable},
}

func requireOutcome(t *testing.T, err, cause, is error) {
	t.Helper()
	require.ErrorIs(t, err, is)
	for _, other := range []error{
		fence.ErrStale, fence.ErrDuplicate, fence.ErrReplayed,
		fence.ErrUnavailable, fence.ErrOutcomeUnknown, fence.ErrInvalid, fence.ErrNotFound,
	} {
		if other != is {
			require.NotErrorIs(t, err, other)
		}
	}
	var rejected *fence.RejectedError
	if errors.As(err, &rejected) {
		assert.EqualValues(t, 34, rejected.Mark)
		return
	}
	require.ErrorIs(t, err, cause, "the cause can be reached")
}

func TestMock_AdmitTx_EveryOutcome(t *testing.T) {
	c := claim("auction/7", 33)
	admitted := newMock(t)
	admitted.ExpectExec("fence_admit").WithArgs("auction/7", int64(33), c.Holder.String()).WillReturnResult(pgxmock.NewResult("SELECT", 1))
	require.NoError(t, newGuard(t, admitted).AdmitTx(t.Context(), admitted, c))
	for name, row := range outcomes {
		t.Run(name, func(t *testing.T) {
			mock := newMock(t)
			mock.ExpectExec("fence_admit").WithArgs(pgxmock.AnyArg(), pgxmock.AnyArg(), pgxmock.AnyArg()).WillReturnError(row.err)
			requireOutcome(t, newGuard(t, mock).AdmitTx(t.Context(), mock, c), row.err, row.is)
		})
	}
}

func TestMock_AdmitTx_AfterTheTransaction(t *testing.T) {
	mock := newMock(t)
	mock.ExpectExec("fence_admit").WithArgs(pgxmock.AnyArg(), pgxmock.AnyArg(), pgxmock.AnyArg()).WillReturnError(pgx.ErrTxClosed)
	err := newGuard(t, mock).AdmitTx(t.Context(), mock, claim("auction/7", 33))
	requireOutcome(t, err, pgx.ErrTxClosed, pgx.ErrTxClosed)
}

func expectBegin(mock pgxmock.PgxPoolIface, options pgx.TxOptions) *pgxmock.ExpectedExec {
	mock.ExpectBeginTx(options)
	return mock.ExpectExec("set_config.*fence_admit").
		WithArgs("30000", pgxmock.AnyArg(), pgxmock.AnyArg(), pgxmock.AnyArg())
}

func TestMock_InTx_EveryOutcomeOfTheAdmission(t *testing.T) {
	for name, row := range outcomes {
		t.Run(name, func(t *testing.T) {
			mock := newMock(t)
			tries := 1
			if name == "conflict" {
				tries = 32
			}
			for range tries {
				expectBegin(mock, pgx.TxOptions{}).WillReturnError(row.err)
				mock.ExpectRollback()
			}
			err := newGuard(t, mock).InTx(t.Context(), claim("auction/7", 33), func(pgx.Tx) error { t.Error("fn ran"); return nil })
			requireOutcome(t, err, row.err, row.is)
		})
	}
}

func TestMock_InTx_BeginFails(t *testing.T) {
	mock := newMock(t)
	mock.ExpectBegin().WillReturnError(io.EOF)
	requireOutcome(t, newGuard(t, mock).InTx(t.Context(), claim("auction/7", 33), nothing), io.EOF, fence.ErrUnavailable)
}

func TestMock_InTx_FunctionAndCommit(t *testing.T) {
	boom := errors.New("boom")
	conflict, constraint, lost := told("ERROR", "40001", ""), told("ERROR", "23505", ""), io.ErrUnexpectedEOF
	for name, row := range map[string]struct {
		fn, commit error
		is         error // of the outcome, nil: success, or the same as the cause
	}{
		"all well":          {},
		"fn fails":          {fn: boom, is: boom},
		"fn conflicts":      {fn: conflict, is: fence.ErrUnavailable},
		"commit conflicts":  {commit: conflict, is: fence.ErrUnavailable},
		"commit constraint": {commit: constraint, is: constraint},
		"commit lost":       {commit: lost, is: fence.ErrOutcomeUnknown},
		"commit rolls back": {commit: pgx.ErrTxCommitRollback, is: pgx.ErrTxCommitRollback},
		"commit shutdown":   {commit: told("FATAL", "57P01", ""), is: fence.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			mock := newMock(t)
			options := pgx.TxOptions{IsoLevel: pgx.Serializable}
			expectBegin(mock, options).WillReturnResult(pgxmock.NewResult("SELECT", 1))
			mock.ExpectExec("UPDATE auctions").WithArgs(7, 120).WillReturnResult(pgxmock.NewResult("UPDATE", 1))
			if row.fn != nil {
				mock.ExpectRollback().WillReturnError(errors.New("rollback fails too"))
			} else {
				mock.ExpectCommit().WillReturnError(row.commit)
			}
			err := newGuard(t, mock, pgguard.WithTxOptions(options)).InTx(t.Context(), claim("auction/7", 33), func(tx pgx.Tx) error {
				return errors.Join(bid(t.Context(), tx, 7, 120), row.fn)
			})
			if row.is == nil {
				require.NoError(t, err)
				return
			}
			requireOutcome(t, err, errors.Join(row.fn, row.commit).(interface{ Unwrap() []error }).Unwrap()[0], row.is)
		})
	}
}

func TestMock_InTx_Panic(t *testing.T) {
	mock := newMock(t)
	expectBegin(mock, pgx.TxOptions{}).WillReturnResult(pgxmock.NewResult("SELECT", 1))
	mock.ExpectRollback()
	assert.PanicsWithValue(t, "boom", func() {
		_ = newGuard(t, mock).InTx(t.Context(), claim("auction/7", 33), func(pgx.Tx) error { panic("boom") })
	})
}

// TestMock_Admit_EveryOutcome: the statement commits by itself, so what is no answer is unknown.
func TestMock_Admit_EveryOutcome(t *testing.T) {
	for name, row := range outcomes {
		t.Run(name, func(t *testing.T) {
			mock := newMock(t)
			tries, is := 1, row.is
			switch name {
			case "conflict":
				tries = 32
			case "connection lost", "deadline", "shutdown":
				is = fence.ErrOutcomeUnknown
			}
			for range tries {
				mock.ExpectExec("fence_admit").WithArgs("auction/7", pgxmock.AnyArg(), int64(33)).WillReturnError(row.err)
			}
			requireOutcome(t, newGuard(t, mock).Admit(t.Context(), claim("auction/7", 33)), row.err, is)
		})
	}
}

// expectTable answers the question for the columns of a table.
func expectTable(mock pgxmock.PgxPoolIface) {
	mock.ExpectQuery("pg_class").WithArgs(`"auctions"`, "id", "fence", "").WillReturnRows(
		pgxmock.NewRows([]string{"relkind", "parent", "unique", "name", "type", "oid", "mod", "det"}).
			AddRow("r", false, true, "id", "bigint", int64(20), int32(-1), true).
			AddRow("r", false, true, "fence", "bigint", int64(20), int32(-1), true))
}

func expectUpdate(mock pgxmock.PgxPoolIface) *pgxmock.ExpectedExec {
	return mock.ExpectExec(`UPDATE "auctions"`).WithArgs(120, "7", int64(33))
}

func markRow(token int64) *pgxmock.Rows {
	return pgxmock.NewRows([]string{"fence", "holder"}).AddRow(token, "00000000-0000-0000-0000-000000000000")
}

func TestMock_Table_EachStepCanFail(t *testing.T) {
	c := claim("auction/7", 33)
	none := pgxmock.NewResult("UPDATE", 0)
	for name, row := range map[string]struct {
		expect func(mock pgxmock.PgxPoolIface)
		cause  error
		is     error
	}{
		"the columns are not told": {func(mock pgxmock.PgxPoolIface) {
			mock.ExpectQuery("pg_class").WithArgs(`"auctions"`, "id", "fence", "").WillReturnError(io.EOF)
		}, io.EOF, fence.ErrUnavailable},
		"the write is lost": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			expectUpdate(mock).WillReturnError(io.EOF)
		}, io.EOF, fence.ErrOutcomeUnknown},
		"the write meets a full disk": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			expectUpdate(mock).WillReturnError(outcomes["disk full"].err)
		}, outcomes["disk full"].err, fence.ErrUnavailable},
		"the reason is lost": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			expectUpdate(mock).WillReturnResult(none)
			mock.ExpectQuery("SELECT coalesce").WithArgs("7").WillReturnError(io.EOF)
		}, io.EOF, fence.ErrUnavailable},
		"there is no row": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			expectUpdate(mock).WillReturnResult(none)
			mock.ExpectQuery("SELECT coalesce").WithArgs("7").WillReturnRows(pgxmock.NewRows([]string{"fence", "holder"}))
		}, fence.ErrNotFound, fence.ErrNotFound},
		"the row is newer": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			expectUpdate(mock).WillReturnResult(none)
			mock.ExpectQuery("SELECT coalesce").WithArgs("7").WillReturnRows(markRow(34))
		}, nil, fence.ErrStale},
		"the row was older after all": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			expectUpdate(mock).WillReturnResult(none)
			mock.ExpectQuery("SELECT coalesce").WithArgs("7").WillReturnRows(markRow(30))
			expectUpdate(mock).WillReturnResult(pgxmock.NewResult("UPDATE", 1))
		}, nil, nil},
		"the row is always older": {func(mock pgxmock.PgxPoolIface) {
			expectTable(mock)
			for range 8 {
				expectUpdate(mock).WillReturnResult(none)
				mock.ExpectQuery("SELECT coalesce").WithArgs("7").WillReturnRows(markRow(30))
			}
		}, fence.ErrUnavailable, fence.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			mock := newMock(t)
			row.expect(mock)
			err := newGuard(t, mock).Table(once).Update(t.Context(), c, 7, pgguard.Set{"bid": 120})
			if row.is == nil {
				require.NoError(t, err)
				return
			}
			requireOutcome(t, err, row.cause, row.is)
		})
	}
}

func TestMock_Migrate_EachStepCanFail(t *testing.T) {
	steps := []func(mock pgxmock.PgxPoolIface, fails bool){
		func(mock pgxmock.PgxPoolIface, fails bool) {
			if e := mock.ExpectBeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			e := mock.ExpectExec("pg_advisory_xact_lock").WithArgs(pgxmock.AnyArg())
			if e.WillReturnResult(pgxmock.NewResult("SELECT", 1)); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			e := mock.ExpectQuery("current_schema")
			if e.WillReturnRows(pgxmock.NewRows([]string{"s"}).AddRow("public")); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			e := mock.ExpectQuery("to_regclass").WithArgs(`"public"."fence_migrations"`)
			if e.WillReturnRows(pgxmock.NewRows([]string{"found"}).AddRow(true)); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			e := mock.ExpectQuery("SELECT version")
			if e.WillReturnRows(pgxmock.NewRows([]string{"version"})); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			e := mock.ExpectExec("CREATE TABLE fence_marks")
			if e.WillReturnResult(pgxmock.NewResult("DO", 0)); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			e := mock.ExpectExec("INSERT INTO fence_migrations").WithArgs(1, "fence_marks")
			if e.WillReturnResult(pgxmock.NewResult("INSERT", 1)); fails {
				e.WillReturnError(io.EOF)
			}
		},
		func(mock pgxmock.PgxPoolIface, fails bool) {
			if e := mock.ExpectCommit(); fails {
				e.WillReturnError(io.EOF)
			}
		},
	}
	for failing := range len(steps) + 1 {
		mock := newMock(t)
		for i, step := range steps[:min(failing+1, len(steps))] {
			step(mock, i == failing)
		}
		if failing > 0 && failing < len(steps)-1 {
			mock.ExpectRollback()
		}
		err := pgguard.Migrate(t.Context(), mock)
		switch failing {
		case len(steps):
			require.NoError(t, err)
		case len(steps) - 1:
			require.ErrorIs(t, err, fence.ErrOutcomeUnknown)
		default:
			require.ErrorIs(t, err, fence.ErrUnavailable, "step %d", failing)
			require.NotErrorIs(t, err, fence.ErrOutcomeUnknown, "step %d", failing)
		}
	}
}
