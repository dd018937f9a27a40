package sqlguard_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

func TestNew_NamesWhatIsWrong(t *testing.T) {
	db := newDB(t)
	for _, row := range []struct {
		db   *sql.DB
		d    sqlguard.Dialect
		o    sqlguard.Option
		want string
	}{
		{nil, sqlguard.SQLite, sqlguard.WithBusyTimeout(0), "db is nil"},
		{db, "oracle", sqlguard.WithBusyTimeout(0), `"oracle"`},
		{db, sqlguard.SQLite, nil, "option"},
		{db, sqlguard.SQLite, sqlguard.WithBusyTimeout(-time.Second), "WithBusyTimeout(-1s)"},
		{db, sqlguard.SQLite, sqlguard.WithBusyTimeout(25 * 24 * time.Hour), "WithBusyTimeout(600h0m0s)"},
	} {
		g, err := sqlguard.New(row.db, row.d, row.o)
		require.ErrorIs(t, err, fence.ErrInvalid, row.want)
		require.ErrorContains(t, err, row.want)
		require.Nil(t, g)
		require.ErrorIs(t, sqlguard.Migrate(t.Context(), row.db, row.d, row.o), fence.ErrInvalid)
	}
	g := newGuard(t, db)
	require.ErrorIs(t, g.InTx(t.Context(), claim("r", 1), nil), fence.ErrInvalid)
	require.ErrorIs(t, g.Do(t.Context(), claim("r", 1), nil), fence.ErrInvalid)
	require.ErrorIs(t, g.AdmitTx(t.Context(), nil, claim("r", 1)), fence.ErrInvalid)
}

func TestMigrate_MayRunAgainAndAtOnce(t *testing.T) {
	f := file{t.TempDir() + "/test.db"}
	const processes = 4
	errs := make(chan error, processes)
	for range processes {
		db := f.open(t)
		go func() { errs <- sqlguard.Migrate(t.Context(), db, sqlguard.SQLite) }()
	}
	for range processes {
		require.NoError(t, <-errs)
	}
	db := f.open(t)
	require.NoError(t, newGuard(t, db).Admit(t.Context(), claim("auction/7", 34)))
	require.NoError(t, sqlguard.Migrate(t.Context(), db, sqlguard.SQLite))
	assert.EqualValues(t, 34, mark(t, db, "auction/7"), "the marks are kept")
	assert.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM fence_migrations"))
}

func TestMigrate_FailsWhole(t *testing.T) {
	db := file{t.TempDir() + "/test.db"}.open(t)
	exec(t, db, "CREATE TABLE fence_marks (something INTEGER)")
	err := sqlguard.Migrate(t.Context(), db, sqlguard.SQLite)
	require.ErrorContains(t, err, "fence_marks")
	assert.Zero(t, one[int](t, db, "SELECT count(*) FROM sqlite_schema WHERE name = 'fence_migrations'"))
	exec(t, db, "DROP TABLE fence_marks")
	require.NoError(t, sqlguard.Migrate(t.Context(), db, sqlguard.SQLite))
}

func TestAdmit_SaysThatTheTableIsMissing(t *testing.T) {
	for _, existing := range []string{"", "CREATE TABLE fence_marks (name TEXT)", "CREATE TABLE fence_marks (resource TEXT, token INTEGER, holder TEXT)"} {
		db := file{t.TempDir() + "/test.db"}.open(t)
		exec(t, db, existing)
		err := newGuard(t, db).Admit(t.Context(), claim("auction/7", 34))
		require.ErrorContains(t, err, "fence_marks")
		require.ErrorContains(t, err, "sqlguard.Migrate")
		require.NotErrorIs(t, err, fence.ErrUnavailable, "a retry doesn't help")
	}
}
