package sqlguard

import (
	"errors"
	"strings"
)

// SQLite's primary result codes, https://sqlite.org/rescode.html. The numbers never change.
const (
	codeError      = 1
	codeInternal   = 2
	codeBusy       = 5
	codeLocked     = 6
	codeNoMem      = 7
	codeReadOnly   = 8
	codeInterrupt  = 9
	codeIOErr      = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeProtocol   = 15
	codeSchema     = 17
	codeConstraint = 19
	codeMismatch   = 20
	codeNotADB     = 26
)

// codeTexts are for drivers whose errors have no method Code: SQLite's own words, which they pass on.
var codeTexts = []struct {
	text string
	code int
}{
	{"database is locked", codeBusy},
	{"table is locked", codeLocked},
	{"schema is locked", codeLocked},
	{"database or disk is full", codeFull},
	{"disk I/O error", codeIOErr},
	{"unable to open database file", codeCantOpen},
	{"readonly database", codeReadOnly},
	{"constraint failed", codeConstraint},
	{"no such table", codeError},
	{"no such column", codeError},
	{"has no column named", codeError},
	{"syntax error", codeError},
}

// code returns the primary code of an error of SQLite, 0 if it is none.
func code(err error) int {
	if err == nil {
		return 0
	}
	var coded interface {
		error
		Code() int
	}
	if errors.As(err, &coded) {
		return coded.Code() & 0xff // the rest is the extended code
	}
	for _, known := range codeTexts {
		if strings.Contains(err.Error(), known.text) {
			return known.code
		}
	}
	return 0
}

func (sqlite) answer(err error) answer {
	switch code(err) {
	case 0:
		return unclear
	case codeBusy, codeLocked, codeInterrupt, codeFull, codeProtocol, codeSchema:
		return undecided
	case codeInternal, codeNoMem, codeReadOnly, codeIOErr, codeCorrupt, codeCantOpen, codeNotADB:
		return failing
	default:
		return refusing
	}
}
