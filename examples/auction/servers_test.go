//go:build unix

package main

import (
	"context"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/internal/testenv"
)

// schema is the schema that the run says it uses.
func (p *program) schema() string {
	p.t.Helper()
	name := regexp.MustCompile(`ringfence_auction_[0-9a-f]{8}`).FindString(p.out.String())
	require.NotEmpty(p.t, name, p.out)
	return name
}

func schemaExists(t *testing.T, url, name string) (exists bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(ctx)) }()
	require.NoError(t, conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, name).Scan(&exists))
	return exists
}

func TestRealServers_LateWritesAreRefused(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.Redis(t).URL(), testenv.Postgres(t).URL()
	p := runProgram(t, allRight, "", "-redis", redis, "-postgres", postgres)
	out := p.out.String()
	assert.Empty(t, p.errOut.String())
	assert.GreaterOrEqual(t, strings.Count(out, "REFUSED"), 2, out)
	assert.Regexp(t, `RIGHT: .* Late writes refused: [2-9]`, out)
	assert.Contains(t, out, "pgguard refuses late writes")
	assert.False(t, schemaExists(t, postgres, p.schema()))
	for line := range strings.Lines(out) {
		assert.LessOrEqual(t, len(line), 101, line)
	}
}

func TestRealServers_GuardOff(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.Redis(t).URL(), testenv.Postgres(t).URL()
	p := runProgram(t, bidLost, duel, "-bids=-", "-guard=off", "-processors=2", "-ttl=300ms", "-redis", redis, "-postgres", postgres)
	assert.Regexp(t, `P\d   DAMAGE    bob's 110, token \d+, has overwritten cat's 120`, p.out.String())
	assert.Contains(t, p.out.String(), "auction 7 has lost the bid of line 3, cat's 120; its row says ")
	assert.False(t, schemaExists(t, postgres, p.schema()))
}

func TestRealServers_RunsKeepApart(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.Redis(t).URL(), testenv.Postgres(t).URL()
	var runs []*program
	for range 3 {
		runs = append(runs, begin(t, duel, "-bids=-", "-processors=2", "-ttl=500ms", "-redis", redis, "-postgres", postgres))
	}
	for _, p := range runs {
		p.end(allRight)
		assert.Contains(t, p.out.String(), "REFUSED")
	}
}

func TestRealServers_InterruptRemovesTheSchema(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.Redis(t).URL(), testenv.Postgres(t).URL()
	p := begin(t, duel, "-bids=-", "-processors=2", "-ttl=30s", "-redis", redis, "-postgres", postgres)
	p.out.await(t, "SIGSTOP")
	assert.True(t, schemaExists(t, postgres, p.schema()))
	p.signal(syscall.SIGINT)
	p.end(interrupted)
	assert.False(t, schemaExists(t, postgres, p.schema()))
}

func TestServerLost_EndsTheRun(t *testing.T) {
	t.Parallel()
	redis, postgres := testenv.NewRedis(t), testenv.Postgres(t).URL()
	p := begin(t, duel, "-bids=-", "-ttl=30s", "-redis", redis.URL(), "-postgres", postgres)
	p.out.await(t, "SIGSTOP")
	redis.Kill()
	p.end(notRun)
	assert.Regexp(t, `^auction: P\d can't decide the bid of line \d+: .*unavailable`, p.errOut.String())
	assert.False(t, schemaExists(t, postgres, p.schema()))
}

// deaf returns the addresses of a server that connects and never answers, and of none at all.
func deaf(t *testing.T) (silent, closed string) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	open, none := listen(), listen()
	t.Cleanup(func() { assert.NoError(t, open.Close()) })
	require.NoError(t, none.Close())
	return open.Addr().String(), none.Addr().String()
}

func TestServerDown_IsToldSoon(t *testing.T) {
	t.Parallel()
	silent, closed := deaf(t)
	redis := testenv.Redis(t).URL()
	for _, row := range []struct{ name, redis, postgres, want string }{
		{"no Redis", "redis://:secret@" + closed, "postgres://" + closed, "the Redis at " + closed + " does not answer"},
		{"silent Redis", "redis://:secret@" + silent, "postgres://" + silent, "the Redis at " + silent + " does not answer"},
		{"bad Redis URL", "redis://:secret@in valid", "postgres://h", "-redis: invalid character"},
		{"not a Redis URL", "http://:secret@h", "postgres://h", "-redis: redis: invalid URL scheme: http"},
		{"no PostgreSQL", redis, "postgres://me:secret@" + closed + "/test", "the PostgreSQL at " + closed + " does not answer"},
		{"silent PostgreSQL", redis, "postgres://me:secret@" + silent + "/test", "the PostgreSQL at " + silent + " does not answer"},
		{"bad PostgreSQL URL", redis, "postgres://me:secret@in valid/test", "-postgres: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			p := runProgram(t, notRun, duel, "-bids=-", "-redis", row.redis, "-postgres", row.postgres)
			assert.Contains(t, p.errOut.String(), row.want)
			assert.NotContains(t, p.errOut.String(), "secret")
			assert.Less(t, time.Since(began), 2*connectWithin+patience/4)
		})
	}
}
