package sqlguard_test

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/guardtest"
	"github.com/ringfence/ringfence/guard/sqlguard"
)

// TestConformance runs the suite on one file with two handles that take turns, so that what is told of
// one guard holds for two processes.
func TestConformance(t *testing.T) {
	for _, journal := range journals {
		t.Run(journal, func(t *testing.T) {
			f := newFile(t, journal)
			a, b := f.open(t), f.open(t)
			exec(t, a, dataSQL)
			guardtest.RunDoer(t, func(t *testing.T) guardtest.DoerHarness {
				return guardtest.DoerHarness{
					Guard:         &pair{of: [2]*sqlguard.Guard{newGuard(t, a), newGuard(t, b)}},
					Transactional: true,
					SingleWriter:  true,
					Nests:         true,
					Store:         data{a},
				}
			})
		})
	}
}

// things are rows that carry their marks.
var things = sqlguard.Table{Name: "things", Key: "name", Resource: guardtest.Prefix, Fence: "fence", Holder: "holder"}

func TestConformance_TableUpdate(t *testing.T) {
	db := newDB(t, "CREATE TABLE things (id INTEGER PRIMARY KEY, name VARCHAR(20) UNIQUE, fence BIGINT, holder UUID)")
	guardtest.Run(t, func(t *testing.T) guard.Guard {
		return guardtest.Rows(newGuard(t, db).Table(things), func(tb testing.TB, resource string) {
			exec(tb, db, "INSERT INTO things (name) VALUES (?)", strings.TrimPrefix(resource, guardtest.Prefix))
		})
	})
}

func TestConformance_TableUpsert(t *testing.T) {
	db := newDB(t, "CREATE TABLE things (name TEXT PRIMARY KEY, fence INTEGER, holder TEXT) STRICT, WITHOUT ROWID")
	guardtest.Run(t, func(t *testing.T) guard.Guard { return upserts{newGuard(t, db).Table(things)} })
}

// upserts is a guard whose Admit makes the row if there is none.
type upserts struct{ *sqlguard.TableGuard }

func (u upserts) Admit(ctx context.Context, c fence.Claim) error {
	return u.Upsert(ctx, c, strings.TrimPrefix(c.Resource, guardtest.Prefix), nil)
}

// pair is two guards that take turns, except that a call within a call goes to the same guard.
type pair struct {
	of   [2]*sqlguard.Guard
	turn atomic.Uint32
}

type pairKey struct{}

func (p *pair) pick(ctx context.Context) *sqlguard.Guard {
	if g, ok := ctx.Value(pairKey{}).(*sqlguard.Guard); ok {
		return g
	}
	return p.of[p.turn.Add(1)%2]
}

func (p *pair) Admit(ctx context.Context, c fence.Claim) error { return p.pick(ctx).Admit(ctx, c) }

func (p *pair) Do(ctx context.Context, c fence.Claim, fn func(context.Context) error) error {
	g := p.pick(ctx)
	return g.Do(context.WithValue(ctx, pairKey{}, g), c, fn)
}

// TestConformance_AdmitTx runs the suite on transactions that are the caller's own, where their COMMITs
// have to wait for readers.
func TestConformance_AdmitTx(t *testing.T) {
	db := newFile(t, "delete").open(t)
	guardtest.Run(t, func(t *testing.T) guard.Guard { return ownTx{newGuard(t, db), db} })
}

// ownTx is a guard whose Admit is a transaction of the caller.
type ownTx struct {
	guard *sqlguard.Guard
	db    *sql.DB
}

func (o ownTx) Admit(ctx context.Context, c fence.Claim) error {
	tx, err := o.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := o.guard.AdmitTx(ctx, tx, c); err != nil {
		return err
	}
	return tx.Commit()
}
