package migrations

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// Pairs returns the source as golang-migrate reads it: for each migration 0001_name.up.sql and
// 0001_name.down.sql, in one folder. goose takes such a pair for two migrations with one number; it
// gets [Source.Goose].
func (s Source) Pairs() fs.FS {
	pairs, err := fs.Sub(files, string(s))
	if err != nil {
		panic(fmt.Sprintf("migrations: %v", err))
	}
	return pairs
}

// Goose returns the source as goose reads it: one file 0001_name.sql for each migration, both
// directions in it. Each direction is marked as one statement, so that goose doesn't cut functions at
// their semicolons; drivers that take several statements in one text are needed, as pgx, lib/pq and
// the SQLite drivers do.
func (s Source) Goose() fs.FS {
	// An archive in memory is the file system of the standard library that can be written at run time.
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, m := range s.All() {
		f, err := w.Create(fmt.Sprintf("%04d_%s.sql", m.Version, m.Name))
		if err == nil {
			_, err = f.Write([]byte(gooseText(m)))
		}
		if err != nil {
			panic(fmt.Sprintf("migrations: %v", err)) // memory does not fail
		}
	}
	if err := w.Close(); err != nil {
		panic(fmt.Sprintf("migrations: %v", err))
	}
	r, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		panic(fmt.Sprintf("migrations: %v", err))
	}
	return r
}

func gooseText(m Migration) string {
	return "-- +goose Up\n" + gooseStatement(m.Up) + "\n-- +goose Down\n" + gooseStatement(m.Down)
}

func gooseStatement(text string) string {
	return "-- +goose StatementBegin\n" + strings.TrimSpace(text) + "\n-- +goose StatementEnd\n"
}
