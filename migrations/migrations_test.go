package migrations_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/migrations"
)

var sources = []migrations.Source{migrations.Postgres, migrations.SQLite}

func TestSource_NumbersAreOneTwoThree(t *testing.T) {
	for _, s := range sources {
		for i, m := range s.All() {
			assert.Equal(t, i+1, m.Version, "%s %s", s, m.Name)
			assert.Regexp(t, `^[a-z][a-z0-9_]*$`, m.Name)
			assert.NotEmpty(t, m.Up, "%s %s", s, m.Name)
			assert.NotEmpty(t, m.Down, "%s %s", s, m.Name)
		}
	}
	assert.Equal(t, "fence_marks", migrations.Postgres.All()[0].Name)
}

func TestSource_EveryFileIsPartOfAMigration(t *testing.T) {
	for _, s := range sources {
		var want []string
		for _, m := range s.All() {
			stem := fmt.Sprintf("%04d_%s", m.Version, m.Name)
			want = append(want, stem+".down.sql", stem+".up.sql")
		}
		entries, err := fs.ReadDir(s.Pairs(), ".")
		require.NoError(t, err)
		var have []string
		for _, e := range entries {
			have = append(have, e.Name())
		}
		assert.Equal(t, want, have, s)
	}
}

func TestSource_UnknownPanics(t *testing.T) {
	assert.PanicsWithValue(t, `migrations: no source "oracle"`, func() { migrations.Source("oracle").All() })
}

func TestPairs_AreTheSource(t *testing.T) {
	for _, s := range sources {
		for _, m := range s.All() {
			stem := fmt.Sprintf("%04d_%s", m.Version, m.Name)
			require.NoError(t, fstest.TestFS(s.Pairs(), stem+".up.sql", stem+".down.sql"))
			assert.Equal(t, m.Up, read(t, s.Pairs(), stem+".up.sql"))
			assert.Equal(t, m.Down, read(t, s.Pairs(), stem+".down.sql"))
		}
	}
}

func TestGoose_OneFilePerMigrationWithBothDirections(t *testing.T) {
	for _, s := range sources {
		all := s.All()
		entries, err := fs.ReadDir(s.Goose(), ".")
		require.NoError(t, err)
		require.Len(t, entries, len(all), "goose takes two files with one number for duplicates")
		for i, m := range all {
			name := fmt.Sprintf("%04d_%s.sql", m.Version, m.Name)
			require.Equal(t, name, entries[i].Name())
			require.NoError(t, fstest.TestFS(s.Goose(), name))
			up, down := parseGoose(t, gooseFile(t, s, m))
			assert.Equal(t, strings.TrimSpace(m.Up), up)
			assert.Equal(t, strings.TrimSpace(m.Down), down)
		}
	}
}

func gooseFile(t *testing.T, s migrations.Source, m migrations.Migration) string {
	t.Helper()
	return read(t, s.Goose(), fmt.Sprintf("%04d_%s.sql", m.Version, m.Name))
}

// parseGoose reads a file as goose does: annotations are whole lines, and each direction is one
// statement.
func parseGoose(t *testing.T, text string) (up, down string) {
	t.Helper()
	statements := map[string][]string{}
	direction, inside := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch annotation, ok := strings.CutPrefix(line, "-- +goose "); {
		case !ok && inside:
			statements[direction] = append(statements[direction], line)
		case !ok:
			require.Empty(t, line, "a line outside the statements")
		case annotation == "Up" || annotation == "Down":
			require.False(t, inside, line)
			require.NotContains(t, statements, annotation, "twice")
			require.Equal(t, annotation == "Up", direction == "", "Up comes first")
			direction = annotation
		case annotation == "StatementBegin":
			require.NotEmpty(t, direction)
			require.False(t, inside, "nested")
			inside = true
		case annotation == "StatementEnd":
			require.True(t, inside)
			inside = false
		default:
			require.Fail(t, "unknown annotation", line)
		}
	}
	require.False(t, inside, "a statement without an end")
	return strings.Join(statements["Up"], "\n"), strings.Join(statements["Down"], "\n")
}

func read(t *testing.T, fsys fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(text)
}
