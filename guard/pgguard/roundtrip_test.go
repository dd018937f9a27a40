//go:build !pgxmock

package pgguard_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/guard/pgguard"
)

// TestRoundTrips: a guarded write costs no round trip more than a plain one, once its statement has
// been prepared. In the mode that asks for a description each time, the admission's is one more.
func TestRoundTrips(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			e := newEnv(t, "default_query_exec_mode", mode)
			e.exec(t, "INSERT INTO auctions VALUES (7)")
			conn, trips := countTrips(t, e.url)
			g := newGuard(t, conn)
			c := claim("auction/7", 33)
			table := g.Table(full)
			of := func(f func() error) int64 {
				require.NoError(t, f()) // warm
				before := trips.Load()
				require.NoError(t, f())
				return trips.Load() - before
			}
			plainTx := of(func() error {
				return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, 120) })
			})
			fencedTx := of(func() error {
				return g.InTx(t.Context(), c, func(tx pgx.Tx) error { return bid(t.Context(), tx, 7, 120) })
			})
			plain := of(func() error {
				_, err := conn.Exec(t.Context(), "UPDATE auctions SET bid = $1 WHERE id = $2", 120, 7)
				return err
			})
			fenced := of(func() error { return table.Update(t.Context(), c, 7, pgguard.Set{"bid": 120}) })
			if mode == "describe_exec" {
				fencedTx--
			} else {
				assert.EqualValues(t, 3, fencedTx, "BEGIN, statement, COMMIT")
			}
			assert.Equal(t, plainTx, fencedTx)
			assert.Equal(t, plain, fenced)
			assert.Equal(t, plain, of(func() error { return g.Admit(t.Context(), c) }))
		})
	}
}

// countTrips connects, and counts how often something was sent and then waited for.
func countTrips(t *testing.T, address string) (*pgx.Conn, *atomic.Int64) {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	require.NoError(t, err)
	trips := new(atomic.Int64)
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &tripCounter{Conn: conn, trips: trips}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn, trips
}

type tripCounter struct {
	net.Conn
	trips *atomic.Int64
	sent  atomic.Bool
}

func (c *tripCounter) Write(b []byte) (int, error) {
	c.sent.Store(true)
	return c.Conn.Write(b)
}

func (c *tripCounter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.sent.Swap(false) {
		c.trips.Add(1)
	}
	return n, err
}
