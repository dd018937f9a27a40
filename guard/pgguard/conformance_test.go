package pgguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/guard/guardtest"
	"github.com/ringfence/ringfence/guard/pgguard"
)

func TestConformance(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		t.Run(strings.ReplaceAll(string(level), " ", "_"), func(t *testing.T) {
			e := newEnv(t)
			e.exec(t, "CREATE TABLE data (resource text PRIMARY KEY, value bigint NOT NULL)")
			guardtest.RunDoer(t, func(t *testing.T) guardtest.DoerHarness {
				return guardtest.DoerHarness{
					Guard:         e.guard(t, pgguard.WithTxOptions(pgx.TxOptions{IsoLevel: level})),
					Transactional: true,
					Nests:         true,
					Store:         data{e},
				}
			})
		})
	}
}

// data is a table that fence_marks protects.
type data struct{ *env }

func (d data) Read(ctx context.Context, resource string) (value int64, err error) {
	err = d.in(ctx).QueryRow(ctx, "SELECT value FROM data WHERE resource = $1", resource).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return value, err
}

func (d data) Write(ctx context.Context, resource string, value int64) error {
	rows, err := d.in(ctx).Query(ctx, `INSERT INTO data VALUES ($1, $2)
		ON CONFLICT (resource) DO UPDATE SET value = excluded.value`, resource, value)
	if err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

func (d data) in(ctx context.Context) interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
} {
	if tx, ok := pgguard.TxFrom(ctx); ok {
		return tx
	}
	return d.Pool
}

// TestConformance_Table runs the suite on rows that carry their marks, made beforehand or on the way.
func TestConformance_Table(t *testing.T) {
	const columns = " (name %s PRIMARY KEY, fence bigint, holder uuid)"
	for name, keyType := range map[string]string{"text": "text", "varchar": `varchar(600) COLLATE "C"`} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.exec(t, "CREATE TABLE things"+strings.ReplaceAll(columns, "%s", keyType))
			things := pgguard.Table{Name: "things", Key: "name", Resource: guardtest.Prefix, Fence: "fence", Holder: "holder"}
			t.Run("Update", func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T) guard.Guard {
					return guardtest.Rows(e.guard(t).Table(things), func(tb testing.TB, resource string) {
						_, err := e.Exec(tb.Context(), "INSERT INTO things VALUES ($1)", strings.TrimPrefix(resource, guardtest.Prefix))
						require.NoError(tb, err)
					})
				})
			})
			t.Run("Upsert", func(t *testing.T) {
				guardtest.Run(t, func(t *testing.T) guard.Guard { return upserts{e.guard(t).Table(things)} })
			})
		})
	}
}

// upserts is a guard whose Admit makes the row if there is none.
type upserts struct{ *pgguard.TableGuard }

func (u upserts) Admit(ctx context.Context, c fence.Claim) error {
	return u.Upsert(ctx, c, strings.TrimPrefix(c.Resource, guardtest.Prefix), nil)
}
