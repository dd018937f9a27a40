//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// groupLimit is for what a group of servers does by itself, such as a failover. A sentinel or node that
// was starved tries again after ten seconds or more.
const groupLimit = 60 * time.Second

// group is a number of servers that work together, private to a test.
type group struct {
	tb      testing.TB
	name    string
	members []*Server
}

// add starts n servers at once and has the test's end stop them. If one fails, so does the test; those
// that did start are stopped too.
func (g *group) add(n int, start func(i int) (*daemon, error)) []*daemon {
	g.tb.Helper()
	started, err := startAll(n, start)
	for _, d := range started {
		discardAtEnd(g.tb, d)
	}
	g.must(err)
	return started
}

// startAll returns those that started, in order.
func startAll(n int, start func(i int) (*daemon, error)) ([]*daemon, error) {
	daemons, errs := make([]*daemon, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { daemons[i], errs[i] = start(i) })
	}
	all.Wait()
	var started []*daemon
	for _, d := range daemons {
		if d != nil {
			started = append(started, d)
		}
	}
	return started, errors.Join(errs...)
}

// must fails the test on an error, with the end of every member's log.
func (g *group) must(err error) {
	g.tb.Helper()
	if err == nil {
		return
	}
	for _, s := range g.members {
		err = errors.Join(err, s.daemon.report("at "+s.addr))
	}
	g.tb.Fatalf("testenv: %s: %v", g.name, err)
}

// await asks until the answer is nil; if that takes too long, the test fails with the last answer.
func (g *group) await(what string, limit time.Duration, unmet func() error) {
	g.tb.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := unmet()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			g.must(fmt.Errorf("%s: not within %v: %w", what, limit, err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// serving are the members that run and are not paused.
func (g *group) serving() []*Server {
	var list []*Server
	for _, s := range g.members {
		if s.daemon.serving() {
			list = append(list, s)
		}
	}
	return list
}

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.addr
	}
	return list
}
