package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/guard/pgguard"
	"github.com/ringfence/ringfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// readme returns the README's code blocks of a language.
func readme(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		code, _, closed := strings.Cut(part, "\n```")
		require.True(t, closed)
		blocks = append(blocks, code+"\n")
	}
	return blocks
}

func TestREADME_ShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(source), "package main\n")
	assert.Equal(t, []string{"package main\n" + program}, readme(t, "go"), "all Go code of the README is this program")
}

// TestQuickstart runs the README's program on the README's table.
func TestQuickstart(t *testing.T) {
	redisServer := testenv.NewRedis(t) // its resource name is fixed
	url, _ := testenv.Postgres(t).Schema(t)
	ctx := t.Context()
	db, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	require.NoError(t, pgguard.Migrate(ctx, db))
	tables := readme(t, "sql")
	require.Len(t, tables, 1)
	_, err = db.Exec(ctx, tables[0])
	require.NoError(t, err)

	program := filepath.Join(t.TempDir(), "quickstart")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := func() (string, error) {
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), "REDIS_ADDR="+redisServer.Addr(), "DATABASE_URL="+url)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	row := func() (bid int, fence int64) {
		require.NoError(t, db.QueryRow(ctx, `SELECT bid, fence FROM auctions WHERE id = 7`).Scan(&bid, &fence))
		return bid, fence
	}
	said, err := run()
	require.NoError(t, err, said)
	bid, first := row()
	assert.Equal(t, 110, bid)
	said, err = run()
	require.NoError(t, err, said)
	bid, second := row()
	assert.Equal(t, 120, bid)
	assert.Greater(t, second, first)

	_, err = db.Exec(ctx, `UPDATE auctions SET fence = 9223372036854775807`)
	require.NoError(t, err)
	said, err = run()
	require.Error(t, err)
	assert.Contains(t, said, "stale")
	bid, _ = row()
	assert.Equal(t, 120, bid)

	rdb := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	held, err := rdb.Exists(ctx, "lock:auction/7").Result()
	require.NoError(t, err)
	assert.Zero(t, held, "the refused holder kept its lease")
}
