package pgguard

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
)

// DB is what a Guard needs of pgx. *pgxpool.Pool, *pgxpool.Conn and *pgx.Conn have it.
type DB interface {
	BeginTx(ctx context.Context, txOptions pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Guard keeps marks in the table fence_marks of a PostgreSQL database; [Migrate] creates it. Make one
// with [New]. It is safe for concurrent use if its DB is: a pool is, a connection is not.
type Guard struct {
	db DB
	settings
	admitSQL string   // with admitArgs
	beginSQL string   // with beginArgs: the same, after the hold timeout is set
	aloneSQL string   // with aloneArgs: the same, for a statement that commits by itself
	shapes   sync.Map // Table → *shape, looked up once
	open     sync.Map // pgx.Tx → *joined, the transactions of InTx and Do under way
}

var _ guard.Doer = (*Guard)(nil)

// New returns a guard on db. Nothing is sent yet. The error wraps [fence.ErrInvalid] and names what is
// wrong: a nil db, or an option and its value.
func New(db DB, opts ...Option) (*Guard, error) {
	if isNil(db) {
		return nil, fmt.Errorf("%w: pgguard: db is nil", fence.ErrInvalid)
	}
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	function := s.qualify("fence_admit")
	return &Guard{
		db:       db,
		settings: s,
		admitSQL: "SELECT " + function + "($1::text, $2::bigint, $3::uuid)",
		beginSQL: "SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), " +
			function + "($2::text, $3::bigint, $4::uuid)",
		aloneSQL: "SELECT " + function + "($1::text, $3::bigint, $2::uuid)",
	}, nil
}

// Arguments are of types that every exec mode of pgx can send; the casts tell the server what they are.

func admitArgs(c fence.Claim) []any {
	return []any{c.Resource, int64(c.Token), c.Holder.String()}
}

func (g *Guard) beginArgs(c fence.Claim) []any {
	return []any{strconv.FormatInt(g.hold.Milliseconds(), 10), c.Resource, int64(c.Token), c.Holder.String()}
}

func aloneArgs(c fence.Claim) []any {
	return []any{c.Resource, c.Holder.String(), c.Token}
}

// ready checks what can be checked before anything is sent.
func (g *Guard) ready(ctx context.Context, o operation) error {
	if err := o.claim.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return o.unavailable(ctx, err)
	}
	return nil
}

// alone refuses a connection that has a transaction open: BEGIN would not begin one, and our COMMIT
// would commit the caller's.
func (g *Guard) alone(o operation) error {
	var conn *pgx.Conn
	switch db := g.db.(type) {
	case *pgx.Conn:
		conn = db
	case *pgxpool.Conn:
		conn = db.Conn()
	}
	if conn == nil || conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	return fmt.Errorf("%w: pgguard: %v: the guard's connection has a transaction open: use AdmitTx in it", fence.ErrInvalid, o)
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// operation is what a call is doing, for its errors.
type operation struct {
	name  string
	claim fence.Claim
	table string // "" if it is about the guard's own
}

func (o operation) String() string {
	text := o.name
	if o.table != "" {
		text += " of table " + o.table + " by"
	}
	if o.claim != (fence.Claim{}) {
		text += " " + o.claim.String()
	}
	return text
}
