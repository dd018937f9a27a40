package sqlguard_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"
)

// faulty is SQLite whose BEGIN and COMMIT can be made to go wrong.
type faulty struct {
	dsn    string
	begin  error                            // in place of BEGIN
	commit func(commit func() error) error  // in place of COMMIT
	counts struct{ commits, rollbacks int } // that reached the driver
}

func (f *faulty) open(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (f *faulty) Connect(context.Context) (driver.Conn, error) {
	conn, err := f.Driver().Open(f.dsn)
	if err != nil {
		return nil, err
	}
	return &faultyConn{conn.(sqliteConn), f}, nil
}

func (f *faulty) Driver() driver.Driver { return &sqlite.Driver{} }

// sqliteConn is what database/sql looks for in a connection.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type faultyConn struct {
	sqliteConn
	of *faulty
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.of.begin != nil {
		return nil, c.of.begin
	}
	tx, err := c.sqliteConn.BeginTx(ctx, opts)
	return &faultyTx{tx, c.of}, err
}

type faultyTx struct {
	driver.Tx
	of *faulty
}

func (tx *faultyTx) Commit() error {
	tx.of.counts.commits++
	if tx.of.commit != nil {
		return tx.of.commit(tx.Tx.Commit)
	}
	return tx.Tx.Commit()
}

func (tx *faultyTx) Rollback() error {
	tx.of.counts.rollbacks++
	return tx.Tx.Rollback()
}

// coded is an error of SQLite as some driver might tell it.
type coded int

func (coded) Error() string { return "coded" }

func (c coded) Code() int { return int(c) }
