package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
	"github.com/ringfence/ringfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// journals are the ways in which SQLite keeps readers and a writer apart.
var journals = []string{"delete", "wal"}

// file is a database that several handles, as of several processes, can open.
type file struct{ path string }

func newFile(t *testing.T, journal string) file {
	t.Helper()
	f := file{filepath.Join(t.TempDir(), "test.db")}
	require.Equal(t, journal, one[string](t, f.open(t), "PRAGMA journal_mode = "+journal)) // the file keeps it
	require.NoError(t, sqlguard.Migrate(t.Context(), f.open(t), sqlguard.SQLite))
	return f
}

// open returns another handle. Commits don't wait for the disk: nobody pulls the plug. The pragma that
// says so needs the schema, and may have to wait for it.
func (f file) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+f.path+"?_pragma=busy_timeout(5000)&_pragma=synchronous(off)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func newGuard(t *testing.T, db *sql.DB, opts ...sqlguard.Option) *sqlguard.Guard {
	t.Helper()
	g, err := sqlguard.New(db, sqlguard.SQLite, opts...)
	require.NoError(t, err)
	return g
}

// newDB is a file in WAL mode with one handle, and the SQL run in it.
func newDB(t *testing.T, statements ...string) *sql.DB {
	t.Helper()
	db := newFile(t, "wal").open(t)
	for _, s := range statements {
		exec(t, db, s)
	}
	return db
}

func exec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
}

// one returns the only value of a query.
func one[T any](t testing.TB, db *sql.DB, query string, args ...any) (value T) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&value))
	return value
}

func claim(resource string, token fence.Token) fence.Claim {
	return fence.Claim{Resource: resource, Token: token, Holder: uuid.New()}
}

// mark is the mark in fence_marks: 0 if there is none.
func mark(t testing.TB, db *sql.DB, resource string) fence.Token {
	t.Helper()
	return fence.Token(one[int64](t, db, "SELECT coalesce(max(token), 0) FROM fence_marks WHERE resource = ?", resource))
}

// rejected requires that err is a refusal with the verdict, by the mark.
func rejected(t testing.TB, err error, verdict error, by fence.Token) {
	t.Helper()
	var r *fence.RejectedError
	require.ErrorAs(t, err, &r)
	require.ErrorIs(t, err, verdict)
	require.Equal(t, by, r.Mark)
}

// data is a table that fence_marks protects.
type data struct{ *sql.DB }

const dataSQL = "CREATE TABLE data (resource TEXT PRIMARY KEY, value INTEGER NOT NULL)"

func (d data) Read(ctx context.Context, resource string) (value int64, err error) {
	const query = "SELECT value FROM data WHERE resource = ?"
	row := d.QueryRowContext
	if tx, ok := sqlguard.TxFrom(ctx); ok {
		row = tx.QueryRowContext
	}
	if err = row(ctx, query, resource).Scan(&value); errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return value, err
}

func (d data) Write(ctx context.Context, resource string, value int64) error {
	const statement = "INSERT INTO data VALUES (?, ?) ON CONFLICT (resource) DO UPDATE SET value = excluded.value"
	run := d.ExecContext
	if tx, ok := sqlguard.TxFrom(ctx); ok {
		run = tx.ExecContext
	}
	_, err := run(ctx, statement, resource, value)
	return err
}
