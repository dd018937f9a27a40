//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// current is what the tests of this binary share. It is empty until a test asks for a server.
var current session

type session struct {
	redis    shared
	postgres shared
	template template

	mu     sync.Mutex
	root   string // temporary folder of this binary, "" until needed
	made   int    // folders made in root, for their names
	reaper *reaper
}

// newDir makes a folder of its own for a server, under the binary's temporary folder, and returns it with
// the reaper that is to know the server's processes.
func (s *session) newDir(name string) (string, *reaper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return "", nil, err
	}
	s.made++
	dir := filepath.Join(s.root, fmt.Sprintf("%s-%d", name, s.made))
	return dir, s.reaper, os.Mkdir(dir, 0o700)
}

// open makes the temporary folder and starts the reaper that guards it.
func (s *session) open() error {
	if s.root != "" {
		return nil
	}
	root, err := makeRoot()
	if err != nil {
		return err
	}
	reaper, err := startReaper(root)
	if err != nil {
		return errors.Join(err, os.RemoveAll(root))
	}
	s.root, s.reaper = root, reaper
	return nil
}

// close stops the shared servers and removes everything. A later use starts afresh.
func (s *session) close() error {
	err := errors.Join(s.redis.close(), s.postgres.close())
	s.template.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == "" {
		return err
	}
	err = errors.Join(err, os.RemoveAll(s.root), s.reaper.close())
	s.root, s.reaper = "", nil
	return err
}

// shared is a server that is started once, for all tests of the binary. A failed start is not tried
// again: each test that asks gets the same error at once.
type shared struct {
	mu     sync.Mutex
	daemon *daemon
	err    error
}

func (s *shared) get(start func() (*daemon, error)) (*daemon, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.daemon == nil && s.err == nil {
		s.daemon, s.err = start()
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.daemon, s.daemon.check()
}

func (s *shared) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.daemon
	s.daemon, s.err = nil, nil
	if d == nil {
		return nil
	}
	return d.discard()
}
