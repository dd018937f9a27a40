package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/google/uuid"
	_ "modernc.org/sqlite"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

// A holder that was paused writes late, under a token that is no longer the newest.
func ExampleGuard_InTx() {
	ctx, db := context.Background(), exampleDB()
	defer func() { _ = db.Close() }()
	guard, err := sqlguard.New(db, sqlguard.SQLite)
	if err != nil {
		log.Fatal(err)
	}
	bid := func(c fence.Claim, amount int) error {
		return guard.InTx(ctx, c, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE auctions SET bid = ? WHERE id = 7 AND bid < ?", amount, amount)
			return err
		})
	}
	paused := fence.Claim{Resource: "auction/7", Token: 33, Holder: uuid.New()}
	newer := fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()}

	fmt.Println("34:", bid(newer, 120))
	var refusal *fence.RejectedError
	if errors.As(bid(paused, 130), &refusal) {
		fmt.Printf("33: %v, the mark is %v\n", refusal.Verdict, refusal.Mark)
	}
	// Output:
	// 34: <nil>
	// 33: fence: stale, the mark is 34
}

// The protected row carries its mark. With a Holder column it can seal a lease: pass the TableGuard to
// lock.WithSeal.
func ExampleGuard_Table() {
	ctx, db := context.Background(), exampleDB()
	defer func() { _ = db.Close() }()
	guard, err := sqlguard.New(db, sqlguard.SQLite)
	if err != nil {
		log.Fatal(err)
	}
	auctions := guard.Table(sqlguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence", Holder: "fence_holder"})
	paused := fence.Claim{Resource: "auction/7", Token: 33, Holder: uuid.New()}
	newer := fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()}

	fmt.Println("seal with 34:", auctions.Admit(ctx, newer))
	fmt.Println("33 is stale:", errors.Is(auctions.Update(ctx, paused, 7, sqlguard.Set{"bid": 130}), fence.ErrStale))
	fmt.Println("34:", auctions.Update(ctx, newer, 7, sqlguard.Set{"bid": 120}))
	fmt.Println("34 again:", auctions.Update(ctx, newer, 7, sqlguard.Set{"bid": 125}))
	fmt.Println("no such auction:", errors.Is(auctions.Admit(ctx, fence.Claim{Resource: "auction/8", Token: 1}), fence.ErrNotFound))
	// Output:
	// seal with 34: <nil>
	// 33 is stale: true
	// 34: <nil>
	// 34 again: <nil>
	// no such auction: true
}

// exampleDB is a database in memory, which is one per connection.
func exampleDB() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if err := sqlguard.Migrate(context.Background(), db, sqlguard.SQLite); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec(`
		CREATE TABLE auctions (id INTEGER PRIMARY KEY, bid INTEGER NOT NULL, fence INTEGER, fence_holder TEXT);
		INSERT INTO auctions (id, bid) VALUES (7, 100)`); err != nil {
		log.Fatal(err)
	}
	return db
}
