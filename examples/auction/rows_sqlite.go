package main

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard/sqlguard"
	"github.com/ringfence/ringfence/lock"
)

// sqliteRows keeps the rows in a SQLite file, guarded by package sqlguard. All processes write it: each
// write is a short transaction, and nobody is stopped inside one, for that would stop every writer.
type sqliteRows struct {
	db    *sql.DB
	table *sqlguard.TableGuard
}

func openSQLite(path, prefix string) (*sqliteRows, error) {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/...
	}
	// WAL lets readers pass the writer. The file goes with the program, so no commit waits for the disk.
	address := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(off)"},
	}.Encode()}
	db, err := sql.Open("sqlite", address.String())
	if err != nil {
		return nil, err
	}
	guard, err := sqlguard.New(db, sqlguard.SQLite)
	if err != nil {
		return nil, err
	}
	return &sqliteRows{db, guard.Table(sqlguard.Table{
		Name: "auctions", Key: "id", Resource: prefix, Fence: "fence", Holder: "fence_holder",
	})}, nil
}

func (r *sqliteRows) Seal() lock.Sealer { return r.table }

func (r *sqliteRows) Read(ctx context.Context, auction string) (s standing, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT bidder, amount, token FROM auctions WHERE id = ?`, auction).
		Scan(&s.Bidder, &s.Amount, (*int64)(&s.Token))
	return s, err
}

func (r *sqliteRows) Write(ctx context.Context, c fence.Claim, b bid) error {
	return r.table.Update(ctx, c, b.Auction, sqlguard.Set{"bidder": b.Bidder, "amount": b.Amount, "token": int64(c.Token)})
}

func (r *sqliteRows) Overwrite(ctx context.Context, c fence.Claim, b bid) error {
	_, err := r.db.ExecContext(ctx, `UPDATE auctions SET bidder = ?, amount = ?, token = ? WHERE id = ?`,
		b.Bidder, b.Amount, int64(c.Token), b.Auction)
	return err
}

func (r *sqliteRows) Create(ctx context.Context, auctions []string) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	if _, err := tx.ExecContext(ctx, `CREATE TABLE auctions (
		id           TEXT PRIMARY KEY,
		bidder       TEXT NOT NULL DEFAULT '',
		amount       INTEGER NOT NULL DEFAULT 0,
		token        INTEGER NOT NULL DEFAULT 0,
		fence        INTEGER,
		fence_holder TEXT
	)`); err != nil {
		return err
	}
	for _, id := range auctions {
		if _, err := tx.ExecContext(ctx, `INSERT INTO auctions (id) VALUES (?)`, id); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (r *sqliteRows) All(ctx context.Context) (map[string]standing, error) {
	found, err := r.db.QueryContext(ctx, `SELECT id, bidder, amount, token FROM auctions`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	all := map[string]standing{}
	for found.Next() {
		var id string
		var s standing
		if err := found.Scan(&id, &s.Bidder, &s.Amount, (*int64)(&s.Token)); err != nil {
			return nil, err
		}
		all[id] = s
	}
	return all, found.Err()
}

// Drop has nothing to do: the file goes with its folder.
func (r *sqliteRows) Drop(context.Context) error { return nil }

func (r *sqliteRows) Close() { _ = r.db.Close() }
