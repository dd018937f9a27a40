package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Source is the SQL for one database. Its methods are safe for concurrent use; they panic for a Source
// that is not one of the constants.
type Source string

// The sources there are.
const (
	Postgres Source = "postgres" // for package pgguard
	SQLite   Source = "sqlite"   // for package sqlguard
)

// Migration is one step. Up and Down are SQL texts of several statements each, to be run in one
// transaction.
type Migration struct {
	Version int    // 1, 2, 3 ...
	Name    string // "fence_marks"
	Up      string
	Down    string
}

const (
	upEnding   = ".up.sql"
	downEnding = ".down.sql"
)

// All returns the migrations in the order in which they are applied.
func (s Source) All() []Migration {
	ups, err := fs.Glob(files, string(s)+"/*"+upEnding)
	if err != nil || len(ups) == 0 {
		panic(fmt.Sprintf("migrations: no source %q", string(s)))
	}
	all := make([]Migration, 0, len(ups))
	for _, up := range ups {
		all = append(all, load(strings.TrimSuffix(up, upEnding)))
	}
	slices.SortFunc(all, func(a, b Migration) int { return a.Version - b.Version })
	return all
}

// load reads the pair of files that begin with stem, "postgres/0001_fence_marks". What is embedded is
// well formed or the package's tests fail, so a fault is no error that a caller could meet.
func load(stem string) Migration {
	number, name, _ := strings.Cut(stem[strings.LastIndexByte(stem, '/')+1:], "_")
	version, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("migrations: %s: %v", stem, err))
	}
	return Migration{Version: version, Name: name, Up: read(stem + upEnding), Down: read(stem + downEnding)}
}

func read(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic(fmt.Sprintf("migrations: %v", err))
	}
	return string(text)
}
