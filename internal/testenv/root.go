//go:build unix

package testenv

import (
	"os"
	"path/filepath"
)

// makeRoot makes the temporary folder of this binary. When we are root, PostgreSQL runs as another
// user, who must be able to reach it; and the path of a unix socket in it must stay below 104 bytes.
func makeRoot() (string, error) {
	base := os.TempDir()
	const room = 50 // for the names below base
	if len(base)+room > 104 || os.Geteuid() == 0 && !reachable(base) {
		base = "/tmp"
	}
	root, err := os.MkdirTemp(base, "ringfence-test-")
	if err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		err = os.Chmod(root, 0o711)
	}
	return root, err
}

// reachable reports whether every user may pass through dir and the folders above it.
func reachable(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
