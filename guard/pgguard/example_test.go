package pgguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/pgguard"
)

// The claim comes from a lease; here it is made by hand.
var lease = fence.Claim{Resource: "auction/7", Token: 34, Holder: uuid.New()}

// Any statements, any tables: everything fn reads is read after the claim was admitted, and everything
// it writes is committed with the mark.
func ExampleGuard_InTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := pgguard.Migrate(ctx, pool); err != nil {
		log.Fatal(err)
	}
	g, err := pgguard.New(pool)
	if err != nil {
		log.Fatal(err)
	}

	err = g.InTx(ctx, lease, func(tx pgx.Tx) error {
		var highest int
		if err := tx.QueryRow(ctx, "SELECT max(amount) FROM bids WHERE auction = 7").Scan(&highest); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO bids (auction, amount) VALUES (7, $1)", highest+10)
		return err
	})
	switch {
	case errors.Is(err, fence.ErrStale):
		log.Print("someone else holds the auction by now; nothing was written")
	case errors.Is(err, fence.ErrOutcomeUnknown):
		log.Print("the answer was lost: look whether the bid is there")
	case errors.Is(err, fence.ErrUnavailable):
		log.Print("nothing was written; try again")
	case err != nil:
		log.Print(err)
	}
}

// A row that carries its own mark: one statement, and no table of marks.
func ExampleGuard_Table() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	g, err := pgguard.New(pool)
	if err != nil {
		log.Fatal(err)
	}

	auctions := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	err = auctions.Update(ctx, lease, 7, pgguard.Set{"bid": 120, "bidder": "ann"})
	var rejected *fence.RejectedError
	if errors.As(err, &rejected) {
		log.Printf("refused: %v, the mark is %v", rejected.Verdict, rejected.Mark)
	}
}

// The claim's resource and the row must be one thing. That is checked before anything is sent.
func ExampleTableGuard_Update_otherRow() {
	pool, err := pgxpool.New(context.Background(), "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	g, err := pgguard.New(pool)
	if err != nil {
		log.Fatal(err)
	}

	auctions := g.Table(pgguard.Table{Name: "auctions", Key: "id", Resource: "auction/", Fence: "fence"})
	err = auctions.Update(context.Background(), lease, 8, pgguard.Set{"bid": 120})
	fmt.Println(err)
	// Output:
	// fence: invalid: pgguard: the claim is for "auction/7", the row of table "auctions" with key "8" is "auction/8"
}
