//go:build unix

package testenv

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// program is an executable that a test needs, and how to get it.
type program struct {
	names  []string // the first that is found is taken
	places []string // folders besides PATH, may be patterns; the last first, and of its matches the newest version
	apt    string
	brew   string
}

var (
	redisServer = program{
		names:  []string{"redis-server", "valkey-server"},
		places: []string{"/usr/local/bin", "/opt/homebrew/bin"},
		apt:    "redis-server", brew: "redis",
	}
	postgresPlaces = []string{
		"/usr/local/opt/postgresql*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/pgsql/bin",
		"/usr/pgsql-*/bin", "/usr/lib/postgresql/*/bin",
	}
	postgresServer = program{names: []string{"postgres"}, places: postgresPlaces, apt: "postgresql", brew: "postgresql"}
	psqlClient     = program{names: []string{"psql"}, places: postgresPlaces, apt: "postgresql-client", brew: "libpq"}
)

// find returns the program's path, or an error that says how to install it.
func (p program) find() (string, error) {
	for _, name := range p.names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
		for _, place := range slices.Backward(p.places) {
			matches, _ := filepath.Glob(filepath.Join(place, name))
			slices.SortFunc(matches, func(a, b string) int { return version(b) - version(a) })
			for _, match := range matches {
				if path, err := exec.LookPath(match); err == nil {
					return path, nil
				}
			}
		}
	}
	return "", fmt.Errorf("%s is not installed. Install it: %s", p.names[0], p.install(runtime.GOOS))
}

var digits = regexp.MustCompile(`[0-9]+`)

// version is the first number in the name of the folder that holds path's bin folder, 0 if it has none.
func version(path string) int {
	n, _ := strconv.Atoi(digits.FindString(filepath.Base(filepath.Dir(filepath.Dir(path)))))
	return n
}

// install is the command that installs it.
func (p program) install(goos string) string {
	if goos == "darwin" {
		return "brew install " + p.brew
	}
	return "apt-get install -y " + p.apt
}
