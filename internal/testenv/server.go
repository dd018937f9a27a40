//go:build unix

package testenv

import (
	"testing"
)

// Server is what [RedisServer] and [PostgresServer] have in common. It belongs to one test: its
// failures are that test's, so call its methods from the test's goroutine. Pause, Resume, Kill,
// Restart and Stop are for private servers; called on a shared or external one they fail the test.
type Server struct {
	tb      testing.TB
	name    string
	url     string
	addr    string
	daemon  *daemon // nil: external
	private bool
}

// URL is where clients connect, with a database: redis://127.0.0.1:20001/0.
func (s *Server) URL() string { return s.url }

// Addr is the server's host:port.
func (s *Server) Addr() string { return s.addr }

// Pause stops all processes of the server with SIGSTOP: connections stay open, new ones are accepted
// by the kernel, nothing answers. When it returns, none of them runs any more.
func (s *Server) Pause() {
	s.tb.Helper()
	s.own("Pause")
	s.must("Pause", s.daemon.pause())
}

// Resume lets a paused server go on. Without a Pause it does nothing.
func (s *Server) Resume() {
	s.tb.Helper()
	s.own("Resume")
	s.daemon.resume()
}

// Kill ends all processes of the server with SIGKILL, paused or not. When it returns they are gone
// and the port refuses connections.
func (s *Server) Kill() {
	s.tb.Helper()
	s.own("Kill")
	s.must("Kill", s.daemon.kill())
}

// Stop ends the server in the polite way: it finishes what it must and keeps its data for Restart. A
// paused server is resumed first. Not needed at the end of a test.
func (s *Server) Stop() {
	s.tb.Helper()
	s.own("Stop")
	s.must("Stop", s.daemon.stop())
}

// Restart starts the server again on the same port with the data it has on disk, and returns when it
// is ready. A server that still runs is stopped first. Redis has nothing on disk by default: see
// [NewRedis].
func (s *Server) Restart() {
	s.tb.Helper()
	s.own("Restart")
	s.must("Restart", s.daemon.restart())
}

func (s *Server) own(action string) {
	s.tb.Helper()
	if !s.private {
		s.tb.Fatalf("testenv: %s of the %s server at %s, which other tests use: take a private one (New%s)", action, s.name, s.addr, s.name)
	}
}

func (s *Server) must(action string, err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("testenv: %s %s: %v", action, s.name, err)
	}
}
