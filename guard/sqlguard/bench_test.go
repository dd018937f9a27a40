package sqlguard_test

import (
	"database/sql"
	"testing"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

// benchmark is a file in WAL mode whose commits don't wait for the disk, with auction 7 in it.
func benchmark(b *testing.B) (*sql.DB, *sqlguard.Guard, fence.Claim) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+b.TempDir()+"/bench.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if err := sqlguard.Migrate(b.Context(), db, sqlguard.SQLite); err != nil {
		b.Fatal(err)
	}
	exec(b, db, auctionsSQL)
	exec(b, db, "INSERT INTO auctions (id) VALUES (7)")
	g, err := sqlguard.New(db, sqlguard.SQLite)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return db, g, fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()}
}

// BenchmarkPlainTransaction is the same transaction as BenchmarkInTx without a guard.
func BenchmarkPlainTransaction(b *testing.B) {
	db, _, _ := benchmark(b)
	for b.Loop() {
		tx, err := db.BeginTx(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tx.ExecContext(b.Context(), "UPDATE auctions SET bid = 120 WHERE id = 7"); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInTx(b *testing.B) {
	_, g, c := benchmark(b)
	for b.Loop() {
		if err := g.InTx(b.Context(), c, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(b.Context(), "UPDATE auctions SET bid = 120 WHERE id = 7")
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlainUpdate is the same write as BenchmarkTableUpdate without a guard.
func BenchmarkPlainUpdate(b *testing.B) {
	db, _, _ := benchmark(b)
	for b.Loop() {
		exec(b, db, "UPDATE auctions SET bid = 120 WHERE id = 7")
	}
}

func BenchmarkTableUpdate(b *testing.B) {
	_, g, c := benchmark(b)
	auctions := g.Table(full)
	for b.Loop() {
		if err := auctions.Update(b.Context(), c, 7, sqlguard.Set{"bid": 120}); err != nil {
			b.Fatal(err)
		}
	}
}
