package migrations_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
	"github.com/ringfence/ringfence/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestPostgres_UpDownUp runs each view's text: everything appears in the first schema of the
// search_path, goes without a trace, and can come back.
func TestPostgres_UpDownUp(t *testing.T) {
	for view, texts := range map[string]func(t *testing.T) (ups, downs []string){"Pairs": pairTexts, "Goose": gooseTexts} {
		t.Run(view, func(t *testing.T) {
			conn, schema := connect(t)
			ups, downs := texts(t)
			up := func() {
				for _, text := range ups {
					exec(t, conn, text)
				}
			}
			up()
			assert.Equal(t, []string{"fence_admit", "fence_marks", "fence_marks_pkey"}, objects(t, conn, schema))
			for i := range downs {
				exec(t, conn, downs[len(downs)-1-i])
			}
			assert.Empty(t, objects(t, conn, schema))
			up()
			exec(t, conn, "SELECT fence_admit('auction/7', 1, gen_random_uuid())")
		})
	}
}

func pairTexts(*testing.T) (ups, downs []string) {
	for _, m := range migrations.Postgres.All() {
		ups, downs = append(ups, m.Up), append(downs, m.Down)
	}
	return ups, downs
}

func gooseTexts(t *testing.T) (ups, downs []string) {
	for _, m := range migrations.Postgres.All() {
		up, down := parseGoose(t, gooseFile(t, migrations.Postgres, m))
		ups, downs = append(ups, up), append(downs, down)
	}
	return ups, downs
}

// TestPostgres_AdmitFindsTheMarksBesideIt calls the function from sessions whose search_path leads
// elsewhere, also to another table of that name.
func TestPostgres_AdmitFindsTheMarksBesideIt(t *testing.T) {
	conn, schema := connect(t)
	for _, m := range migrations.Postgres.All() {
		exec(t, conn, m.Up)
	}
	admit := "SELECT " + pgx.Identifier{schema, "fence_admit"}.Sanitize() + "('auction/7', $1, $2)"
	exec(t, conn, "SET search_path = pg_catalog")
	_, err := conn.Exec(t.Context(), admit, 33, uuid.NewString())
	require.NoError(t, err)

	exec(t, conn, "CREATE TEMPORARY TABLE fence_marks (resource text PRIMARY KEY, token bigint, holder uuid)")
	exec(t, conn, "SET search_path = pg_temp, pg_catalog")
	_, err = conn.Exec(t.Context(), admit, 32, uuid.NewString())
	requireState(t, err, "RF001")

	var token int64
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT token FROM "+pgx.Identifier{schema, "fence_marks"}.Sanitize()).Scan(&token))
	assert.EqualValues(t, 33, token)
}

func TestPostgres_AdmitRefusesBadArguments(t *testing.T) {
	conn, _ := connect(t)
	for _, m := range migrations.Postgres.All() {
		exec(t, conn, m.Up)
	}
	for name, arguments := range map[string]string{
		"no resource":     "NULL, 1, gen_random_uuid()",
		"empty resource":  "'', 1, gen_random_uuid()",
		"long resource":   "repeat('é', 257), 1, gen_random_uuid()",
		"no token":        "'r', NULL, gen_random_uuid()",
		"token zero":      "'r', 0, gen_random_uuid()",
		"negative token":  "'r', -1, gen_random_uuid()",
		"no holder":       "'r', 1, NULL",
		"nothing at all":  "NULL, NULL, NULL",
		"token too large": "'r', 9223372036854775808, gen_random_uuid()",
	} {
		_, err := conn.Exec(t.Context(), "SELECT fence_admit("+arguments+")")
		if name == "token too large" {
			requireState(t, err, "42883") // no function takes a numeric
			continue
		}
		requireState(t, err, "22023")
	}
	var marks int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM fence_marks").Scan(&marks))
	assert.Zero(t, marks)
}

func connect(t *testing.T) (*pgx.Conn, string) {
	t.Helper()
	url, schema := testenv.Postgres(t).Schema(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn, schema
}

func exec(t *testing.T, conn *pgx.Conn, text string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), text)
	require.NoError(t, err)
}

func objects(t *testing.T, conn *pgx.Conn, schema string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
		SELECT relname::text FROM pg_class WHERE relnamespace = $1::text::regnamespace
		UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = $1::text::regnamespace ORDER BY 1`, schema)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func requireState(t *testing.T, err error, state string) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, state, pgErr.Code, pgErr.Message)
}
