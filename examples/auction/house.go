package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// house is the two stores: one for the leases, one for the auctions' rows.
type house struct {
	locks     lockAddress
	lockName  string
	rows      rows
	address   rowsAddress
	rowsName  string
	guardName string
	prefix    string // precedes an auction in the name of its resource
	closers   []func() error
}

// runID keeps runs apart that use the same servers.
func runID() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// openHouse starts the embedded stores or reaches the real ones, and makes the rows. run is the prefix
// of the resources as well.
func openHouse(ctx context.Context, o options, run, prefix string, auctions []string) (h *house, err error) {
	h = &house{prefix: prefix}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	open := h.openEmbedded
	if o.realServers() {
		open = h.openServers
	}
	if err := open(ctx, o, run); err != nil {
		return h, err
	}
	if h.rows, err = openRows(ctx, h.address, prefix); err != nil {
		return h, err
	}
	h.atClose(func() error { h.rows.Close(); return nil })
	h.atClose(h.dropRows)
	making, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	if err := h.rows.Create(making, auctions); err != nil {
		return h, fmt.Errorf("create the table in %s: %w", h.rowsName, err)
	}
	return h, nil
}

// storeWithin bounds what the parent asks of the rows.
const storeWithin = 20 * time.Second

func (h *house) openEmbedded(_ context.Context, _ options, _ string) error {
	dir, err := os.MkdirTemp("", "ringfence-auction-")
	if err != nil {
		return err
	}
	h.atClose(func() error { return os.RemoveAll(dir) })
	locks, stop, err := embeddedLocks()
	if err != nil {
		return err
	}
	h.atClose(func() error { stop(); return nil })
	h.locks, h.lockName = locks, "a Redis inside this program (miniredis)"
	h.address = rowsAddress{SQLite: filepath.Join(dir, "auctions.db")}
	h.rowsName, h.guardName = "a temporary SQLite file", "sqlguard"
	return nil
}

func (h *house) openServers(ctx context.Context, o options, run string) (err error) {
	h.locks = lockAddress{URL: o.redis}
	if h.lockName, err = h.locks.reach(ctx); err != nil {
		return err
	}
	h.lockName = "the Redis at " + h.lockName
	h.address = rowsAddress{Postgres: o.postgres, Schema: "ringfence_auction_" + run}
	h.guardName = "pgguard"
	server, err := reachPostgres(ctx, o.postgres)
	h.rowsName = "the PostgreSQL at " + server + ", schema " + h.address.Schema
	return err
}

// reachPostgres returns nil if the server of the rows answers, and what to call it.
func reachPostgres(ctx context.Context, address string) (name string, err error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return "", fmt.Errorf("-postgres: %w", err) // pgx has taken the password out
	}
	name = fmt.Sprintf("%s:%d", config.ConnConfig.Host, config.ConnConfig.Port)
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	if err := pool.Ping(ctx); err != nil {
		return "", fmt.Errorf("the PostgreSQL at %s does not answer: %w", name, err)
	}
	return name, nil
}

// dropRows works also when the run was interrupted.
func (h *house) dropRows() error {
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	if err := h.rows.Drop(ctx); err != nil {
		return fmt.Errorf("remove the table from %s: %w", h.rowsName, err)
	}
	return nil
}

func (h *house) atClose(f func() error) { h.closers = append(h.closers, f) }

// close takes everything down again, the last thing first.
func (h *house) close() error {
	var failed []error
	for len(h.closers) > 0 {
		last := len(h.closers) - 1
		failed = append(failed, h.closers[last]())
		h.closers = h.closers[:last]
	}
	return errors.Join(failed...)
}

// describe prints what the run is made of.
func (h *house) describe(screen *screen, o options) {
	screen.say("  leases      in %s, for %v each", h.lockName, o.ttl)
	screen.say("  auctions    in %s", h.rowsName)
	if o.guard {
		screen.say("  guard       %s refuses late writes", h.guardName)
	} else {
		screen.say("  guard       OFF")
	}
}
