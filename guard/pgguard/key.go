package pgguard

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"
)

// keyKind is a type whose values have exactly one spelling, provided check passes: otherwise two
// resources could share a row, each with a mark it believes to be its own.
type keyKind struct {
	sql   string // the type, for casts
	check func(text string) error
}

// keyKindOf returns the kind of a type that a Key column may have.
func keyKindOf(oid uint32, modifier int32) (keyKind, bool) {
	switch oid {
	case oidInt2:
		return keyKind{"pg_catalog.int2", integerKey(16)}, true
	case oidInt4:
		return keyKind{"pg_catalog.int4", integerKey(32)}, true
	case oidInt8:
		return keyKind{"pg_catalog.int8", integerKey(64)}, true
	case oidUUID:
		return keyKind{"pg_catalog.uuid", uuidKey}, true
	case oidText:
		return keyKind{"pg_catalog.text", textKey(0)}, true
	case oidVarchar: // compared as text, which doesn't cut anything off
		return keyKind{"pg_catalog.text", textKey(int(modifier) - 4)}, true
	}
	return keyKind{}, false
}

func integerKey(bits int) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil || strconv.FormatInt(n, 10) != text {
			return fmt.Errorf("want an integer of %d bits in its plain spelling", bits)
		}
		return nil
	}
}

func uuidKey(text string) error {
	if id, err := uuid.Parse(text); err != nil || id.String() != text {
		return errors.New("want a UUID of 36 characters in lower case")
	}
	return nil
}

// textKey refuses what is longer than the column: an INSERT would cut spaces off its end.
func textKey(limit int) func(string) error {
	return func(text string) error {
		if limit > 0 && utf8.RuneCountInString(text) > limit {
			return fmt.Errorf("want at most %d characters", limit)
		}
		return nil
	}
}
