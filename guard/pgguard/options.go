package pgguard

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// Option changes a default of [New] or [Migrate].
type Option func(*settings) error

type settings struct {
	schema string
	tx     pgx.TxOptions
	hold   time.Duration // whole milliseconds
}

func newSettings(opts []Option) (settings, error) {
	s := settings{hold: 30 * time.Second}
	for _, o := range opts {
		if o == nil {
			return settings{}, fmt.Errorf("%w: pgguard: an option is nil", fence.ErrInvalid)
		}
		if err := o(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

// qualify returns a name of the guard's schema as SQL.
func (s settings) qualify(name string) string {
	if s.schema == "" {
		return name
	}
	return pgx.Identifier{s.schema, name}.Sanitize()
}

// maxName is the length of a name in PostgreSQL, in bytes; it cuts off what is longer.
const maxName = 63

func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsRune(name, 0)
}

// WithSchema says in which schema fence_marks and fence_admit are. Default: wherever the connection's
// search_path finds them. It has no bearing on the tables of [Guard.Table].
func WithSchema(name string) Option {
	return func(s *settings) error {
		if !validName(name) {
			return fmt.Errorf("%w: pgguard: WithSchema(%q): want the name of a schema, 1 to %d bytes", fence.ErrInvalid, name, maxName)
		}
		s.schema = name
		return nil
	}
}

// WithTxOptions sets the options of the transactions that [Guard.InTx] and [Guard.Do] begin. Default:
// the server's. READ ONLY is refused, for admitting a claim is a write, and so are queries of your own.
func WithTxOptions(o pgx.TxOptions) Option {
	return func(s *settings) error {
		levels := []pgx.TxIsoLevel{"", pgx.Serializable, pgx.RepeatableRead, pgx.ReadCommitted, pgx.ReadUncommitted}
		switch {
		case !slices.Contains(levels, o.IsoLevel):
			return fmt.Errorf("%w: pgguard: WithTxOptions: isolation level %q: want one of pgx's", fence.ErrInvalid, o.IsoLevel)
		case o.AccessMode != "" && o.AccessMode != pgx.ReadWrite:
			return fmt.Errorf("%w: pgguard: WithTxOptions: access mode %q: want read write, admitting is a write", fence.ErrInvalid, o.AccessMode)
		case o.BeginQuery != "", o.CommitQuery != "":
			return fmt.Errorf("%w: pgguard: WithTxOptions: BeginQuery %q, CommitQuery %q: want none, the guard begins and commits",
				fence.ErrInvalid, o.BeginQuery, o.CommitQuery)
		case o.DeferrableMode != "" && o.DeferrableMode != pgx.Deferrable && o.DeferrableMode != pgx.NotDeferrable:
			return fmt.Errorf("%w: pgguard: WithTxOptions: deferrable mode %q: want one of pgx's", fence.ErrInvalid, o.DeferrableMode)
		}
		s.tx = o
		return nil
	}
}

// WithHoldTimeout bounds how long a transaction of [Guard.InTx] or [Guard.Do] may sit idle between two
// statements. After that the server ends it, so that a holder that is paused inside it doesn't keep its
// successor waiting for ever; the call then fails with [fence.ErrUnavailable]. Default 30 s; 1 ms to 24
// days, rounded up to whole milliseconds.
func WithHoldTimeout(d time.Duration) Option {
	return func(s *settings) error {
		rounded := (d + time.Millisecond - 1).Truncate(time.Millisecond)
		if d <= 0 || d.Milliseconds() >= math.MaxInt32 {
			return fmt.Errorf("%w: pgguard: WithHoldTimeout(%v): want 1 ms to 24 days", fence.ErrInvalid, d)
		}
		s.hold = rounded
		return nil
	}
}
