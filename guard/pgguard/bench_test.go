package pgguard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// The servers of the tests don't wait for the disk. On one that does, the guard's share is smaller.

// BenchmarkUpdate compares a write of one row without and with the guard.
func BenchmarkUpdate(b *testing.B) {
	e, conn := benchEnv(b)
	g := newGuard(b, conn)
	onceRule, fullRule := g.Table(once), g.Table(full)
	c := claim("auction/7", 1)
	set := pgguard.Set{"bid": 120}
	compare(b, e, []variant{
		{"plain", func() error {
			_, err := conn.Exec(b.Context(), "UPDATE auctions SET bid = $1 WHERE id = $2", 120, 7)
			return err
		}},
		{"once", func() error {
			c.Token++
			return onceRule.Update(b.Context(), c, 7, set)
		}},
		{"full", func() error { return fullRule.Update(b.Context(), c, 7, set) }},
	})
}

// BenchmarkTransaction compares the same two statements in a plain and in a guarded transaction, under
// one claim and under a new one each time.
func BenchmarkTransaction(b *testing.B) {
	e, conn := benchEnv(b)
	g := newGuard(b, conn)
	c, next := claim("auction/7", 1), fence.Token(1)
	work := func(tx pgx.Tx) error {
		var amount int
		if err := tx.QueryRow(b.Context(), "SELECT bid FROM auctions WHERE id = $1", 7).Scan(&amount); err != nil {
			return err
		}
		return bid(b.Context(), tx, 7, amount%1000+1)
	}
	compare(b, e, []variant{
		{"plain", func() error { return pgx.BeginFunc(b.Context(), conn, work) }},
		{"oneClaim", func() error { return g.InTx(b.Context(), c, work) }},
		{"newClaims", func() error {
			next++
			return g.InTx(b.Context(), claim("auction/8", next), work)
		}},
	})
}

// BenchmarkAdmit is a seal, beside a statement that does nothing.
func BenchmarkAdmit(b *testing.B) {
	e, conn := benchEnv(b)
	g := newGuard(b, conn)
	c := claim("auction/7", 1)
	compare(b, e, []variant{
		{"selectOne", func() error {
			_, err := conn.Exec(b.Context(), "SELECT $1::int", 1)
			return err
		}},
		{"admit", func() error { return g.Admit(b.Context(), c) }},
	})
}

type variant struct {
	name string
	call func() error
}

func compare(b *testing.B, e *env, variants []variant) {
	for _, v := range variants {
		b.Run(v.name, func(b *testing.B) {
			_, err := e.Exec(b.Context(), "TRUNCATE auctions; INSERT INTO auctions VALUES (7)")
			require.NoError(b, err)
			require.NoError(b, v.call())
			b.ReportAllocs()
			for b.Loop() {
				if err := v.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
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
