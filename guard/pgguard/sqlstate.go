package pgguard

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
)

// verdicts are the SQLSTATEs that fence_admit raises.
var verdicts = map[string]error{
	"RF001": fence.ErrStale,
	"RF003": fence.ErrDuplicate,
	"RF004": fence.ErrReplayed,
}

const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	idleInTransaction    = "25P03"
	invalidParameter     = "22023"
	noSuchStatement      = "26000" // a prepared statement that a pooler or DISCARD has dropped
)

// undecidedState reports whether the state says that the server could not do it now, and that it may
// be able to do the same later.
func undecidedState(state string) bool {
	switch state {
	case serializationFailure, deadlockDetected,
		idleInTransaction, "25P04", // a timeout of the transaction
		"25006",         // read only: a standby
		"55P03",         // lock not available
		noSuchStatement, // in a transaction: prepared again in the next
		"57014",         // cancelled, statement timeout
		"57P01", "57P02", "57P03", "57P04", "57P05":
		return true
	}
	switch state[:min(2, len(state))] {
	case "08", // connection
		"53", // out of resources: connections, memory, disk
		"58": // I/O
		return true
	}
	return false
}

// hadNoEffect reports whether err is an answer of the server that something was not done, and would be
// if it were sent again: a conflict, or a cached statement that is gone.
func hadNoEffect(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == serializationFailure || pgErr.Code == noSuchStatement)
}

// definitive reports whether pgErr, the answer to something that commits, says that it did not commit.
// An ERROR does, but for the two that say the opposite. A FATAL may come from a pooler that lost its
// server, or from a server that is going down - except that of a session which was idle, and so never
// read what we sent.
func definitive(pgErr *pgconn.PgError) bool {
	if pgErr.Code == "40003" || pgErr.Code == "08007" { // statement completion, transaction resolution unknown
		return false
	}
	severity := pgErr.SeverityUnlocalized
	if severity == "" {
		severity = pgErr.Severity
	}
	return (severity != "FATAL" && severity != "PANIC") || pgErr.Code == idleInTransaction
}

// refused returns the refusal that pgErr reports, or nil. The claim is c unless the DETAIL tells of
// another: a statement may have admitted several.
func refused(pgErr *pgconn.PgError, c fence.Claim) error {
	verdict := verdicts[pgErr.Code]
	if verdict == nil {
		return nil
	}
	var detail struct {
		Resource    string
		Token, Mark fence.Token
	}
	if err := json.Unmarshal([]byte(pgErr.Detail), &detail); err != nil {
		return &fence.RejectedError{Claim: c, Verdict: verdict}
	}
	if detail.Resource != c.Resource || detail.Token != c.Token {
		c = fence.Claim{Resource: detail.Resource, Token: detail.Token}
	}
	return &fence.RejectedError{Claim: c, Mark: detail.Mark, Verdict: verdict}
}

// badArgument reports whether fence_admit found an argument that a Claim would not have passed.
func badArgument(pgErr *pgconn.PgError) bool {
	return pgErr.Code == invalidParameter && strings.HasPrefix(pgErr.Message, "fence: ")
}
