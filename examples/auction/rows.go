package main

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
)

// standing is what an auction's row says: the highest bid so far, and the token it was written under
// (the mark in the row is often newer: every lease raises it when it is sealed). The zero standing is a
// row without a bid.
type standing struct {
	Bidder string      `json:"bidder"`
	Amount int64       `json:"amount"`
	Token  fence.Token `json:"token"`
}

func (s standing) is(b bid) bool { return s.Bidder == b.Bidder && s.Amount == b.Amount }

func (s standing) String() string { return money(s.Bidder, s.Amount) }
func (b bid) String() string      { return money(b.Bidder, b.Amount) }

func money(bidder string, amount int64) string {
	if amount == 0 {
		return "no bid"
	}
	return fmt.Sprintf("%s's %d", bidder, amount)
}

// rows is the auctions' table: a row for each, which carries its own mark in the columns fence and
// fence_holder.
type rows interface {
	// Seal admits the claim of a new lease to the auction's row: from then on the row refuses the
	// holders before it.
	Seal() lock.Sealer
	// Read reads the auction's row.
	Read(ctx context.Context, auction string) (standing, error)
	// Write writes the bid into its row, if the mark in the row admits the claim.
	Write(ctx context.Context, c fence.Claim, b bid) error
	// Overwrite writes the bid into its row as a program does that has no guard. The token is written to
	// be seen; nothing compares it.
	Overwrite(ctx context.Context, c fence.Claim, b bid) error

	// Create makes the table with a row for each auction, and All reads them. Drop removes the table.
	// These are the parent's.
	Create(ctx context.Context, auctions []string) error
	All(ctx context.Context) (map[string]standing, error)
	Drop(ctx context.Context) error

	Close()
}

// rowsAddress says where the rows are: in a SQLite file, or in a schema of a PostgreSQL database.
type rowsAddress struct {
	SQLite   string `json:"sqlite,omitempty"`   // path
	Postgres string `json:"postgres,omitempty"` // URL
	Schema   string `json:"schema,omitempty"`
}

// openRows connects to the rows; prefix precedes an auction in the name of its resource.
func openRows(ctx context.Context, a rowsAddress, prefix string) (rows, error) {
	if a.Postgres != "" {
		return openPostgres(ctx, a.Postgres, a.Schema, prefix)
	}
	return openSQLite(a.SQLite, prefix)
}
