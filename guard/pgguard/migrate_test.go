package pgguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/migrations"
)

func TestMigrate_AgainChangesNothing(t *testing.T) {
	for _, mode := range modes {
		e := newEnv(t, "default_query_exec_mode", mode)
		require.NoError(t, e.guard(t).Admit(t.Context(), claim("auction/7", 33)))
		require.NoError(t, pgguard.Migrate(t.Context(), e.Pool), mode)
		assert.EqualValues(t, 33, e.mark(t, "auction/7"))
		assert.EqualValues(t, len(migrations.Postgres.All()), e.number(t, "SELECT count(*) FROM fence_migrations"))
	}
}

func TestMigrate_SeveralAtOnce(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		address, schema := testenv.Postgres(t).Schema(t)
		target := schema + " \"New\""
		pool := connectPool(t, withSettings(t, address, "default_transaction_isolation", isolation))
		t.Cleanup(func() {
			_, _ = pool.Exec(context.Background(), "DROP SCHEMA "+pgx.Identifier{target}.Sanitize()+" CASCADE")
		})
		var waits []func() error
		for range 8 {
			waits = append(waits, async(func() error { return pgguard.Migrate(t.Context(), pool, pgguard.WithSchema(target)) }))
		}
		for _, wait := range waits {
			require.NoError(t, wait(), isolation)
		}
		require.NoError(t, newGuard(t, pool, pgguard.WithSchema(target)).Admit(t.Context(), claim("auction/7", 33)))
		require.ErrorContains(t, newGuard(t, pool).Admit(t.Context(), claim("auction/7", 33)), "Migrate", "it is nowhere else")
	}
}

// TestMigrate_SearchPathIsLocal: the connection goes back as it came.
func TestMigrate_SearchPathIsLocal(t *testing.T) {
	address, schema := testenv.Postgres(t).Schema(t)
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	require.NoError(t, pgguard.Migrate(t.Context(), conn, pgguard.WithSchema(schema+"_other")))
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), "DROP SCHEMA "+schema+"_other CASCADE") })
	var path string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW search_path").Scan(&path))
	assert.Equal(t, schema, path)
}

// TestMigrate_UpToDateNeedsNoPrivilege but to read what was applied.
func TestMigrate_UpToDateNeedsNoPrivilege(t *testing.T) {
	e := newEnv(t)
	role := "r" + e.schema
	e.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, _ = e.Exec(context.Background(), "DROP OWNED BY "+role)
		_, _ = e.Exec(context.Background(), "DROP ROLE "+role)
	})
	e.exec(t, "GRANT USAGE ON SCHEMA "+e.schema+" TO "+role)
	e.exec(t, "GRANT SELECT ON fence_migrations TO "+role)
	conn, err := e.Acquire(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Conn().Close(context.Background()); conn.Release() }()
	_, err = conn.Exec(t.Context(), "SET ROLE "+role)
	require.NoError(t, err)
	require.NoError(t, pgguard.Migrate(t.Context(), conn))
	require.NoError(t, pgguard.Migrate(t.Context(), conn, pgguard.WithSchema(e.schema)))

	// What package migrations says such a role needs is what it needs.
	require.Error(t, newGuard(t, conn).Admit(t.Context(), claim("auction/7", 33)))
	e.exec(t, "GRANT SELECT, INSERT, UPDATE ON fence_marks TO "+role)
	require.NoError(t, newGuard(t, conn).Admit(t.Context(), claim("auction/7", 33)))
}

func TestMigrate_FailureLeavesNothing(t *testing.T) {
	address, schema := testenv.Postgres(t).Schema(t)
	pool := connectPool(t, address)
	_, err := pool.Exec(t.Context(), "CREATE TABLE fence_marks (something_else int)")
	require.NoError(t, err)
	require.ErrorContains(t, pgguard.Migrate(t.Context(), pool), "fence_marks")
	var tables int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = $1", schema).Scan(&tables))
	assert.Equal(t, 1, tables)
}

func TestMigrate_NoSchema(t *testing.T) {
	address, _ := testenv.Postgres(t).Schema(t)
	pool := connectPool(t, withSettings(t, address, "options", "-csearch_path=absent"))
	err := pgguard.Migrate(t.Context(), pool)
	require.ErrorIs(t, err, fence.ErrInvalid)
	require.NotErrorIs(t, err, fence.ErrUnavailable)
	require.ErrorContains(t, err, "WithSchema")
}
