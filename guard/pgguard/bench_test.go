package pgguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// BenchmarkUpdate compares a write of one row with and without the guard. As for every write that
// commits, much of it is the commit: run it with the durability that you use.
func BenchmarkUpdate(b *testing.B) {
	e, conn := benchEnv(b)
	g := newGuard(b, conn)
	onceRule, fullRule := g.Table(once), g.Table(full)
	c := claim("auction/7", 1)
	for name, write := range map[string]func() error{
		"plain": func() error {
			_, err := conn.Exec(b.Context(), "UPDATE auctions SET bid = $1 WHERE id = $2", 120, 7)
			return err
		},
		"once": func() error {
			c.Token++
			return onceRule.Update(b.Context(), c, 7, pgguard.Set{"bid": 120})
		},
		"full": func() error {
			return fullRule.Update(b.Context(), c, 7, pgguard.Set{"bid": 120})
		},
	} {
		b.Run(name, func(b *testing.B) { loop(b, e, write) })
	}
}

// BenchmarkTransaction compares the same two statements in a plain and in a guarded transaction, under
// one claim and under a new one each time.
func BenchmarkTransaction(b *testing.B) {
	e, conn := benchEnv(b)
	g := newGuard(b, conn)
	c := claim("auction/7", 1)
	next := fence.Token(1)
	work := func(tx pgx.Tx) error {
		var amount int
		if err := tx.QueryRow(b.Context(), "SELECT bid FROM auctions WHERE id = $1", 7).Scan(&amount); err != nil {
			return err
		}
		return bid(b.Context(), tx, 7, amount%1000+1)
	}
	for name, write := range map[string]func() error{
		"plain":    func() error { return pgx.BeginFunc(b.Context(), conn, work) },
		"oneClaim": func() error { return g.InTx(b.Context(), c, work) },
		"newClaims": func() error {
			next++
			return g.InTx(b.Context(), claim("auction/8", next), work)
		},
	} {
		b.Run(name, func(b *testing.B) { loop(b, e, write) })
	}
}

// BenchmarkAdmit is a seal.
func BenchmarkAdmit(b *testing.B) {
	e, conn := benchEnv(b)
	g := newGuard(b, conn)
	c := claim("auction/7", 1)
	for name, write := range map[string]func() error{
		"selectOne": func() error {
			_, err := conn.Exec(b.Context(), "SELECT $1::int", 1)
			return err
		},
		"admit": func() error { return g.Admit(b.Context(), c) },
	} {
		b.Run(name, func(b *testing.B) { loop(b, e, write) })
	}
}

func benchEnv(b *testing.B) (*env, *pgx.Conn) {
	b.Helper()
	e := newEnv(b)
	conn, err := pgx.Connect(b.Context(), e.url)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	return e, conn
}

func loop(b *testing.B, e *env, write func() error) {
	_, err := e.Exec(b.Context(), "TRUNCATE auctions; INSERT INTO auctions VALUES (7)")
	require.NoError(b, err)
	require.NoError(b, write())
	b.ReportAllocs()
	for b.Loop() {
		if err := write(); err != nil {
			b.Fatal(err)
		}
	}
}
