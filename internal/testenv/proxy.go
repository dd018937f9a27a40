//go:build unix

package testenv

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP relay on 127.0.0.1 that misbehaves on command. What it is told holds for all its
// connections, from now on, until it is told otherwise. Its methods are safe for concurrent use, but
// [Proxy.URL] belongs to the test's goroutine. The test's end closes it.
//
// "Requests" is what clients send, "replies" what the target sends. The proxy knows nothing of the
// protocol in between.
type Proxy struct {
	tb       testing.TB
	target   string
	listener net.Listener
	running  sync.WaitGroup // the accept loop and the links
	deaf     chan struct{}  // closed when the accept loop has ended

	mu      sync.Mutex
	rules   rules
	changed chan struct{} // closed, and replaced, when the rules change
	links   map[*link]struct{}
	losses  []*loss                  // armed, oldest first
	probes  map[string]chan struct{} // see settle
	closed  bool
}

// rules is what a proxy was told.
type rules struct {
	delay     [2]time.Duration // by direction
	drop      [2]bool
	blackhole bool
	refuse    bool
}

type direction int

const (
	requests direction = iota
	replies
)

func (r rules) drops(d direction) bool { return r.blackhole || r.drop[d] }

// NewProxy starts a relay to target, a host:port. The target is dialled anew for each connection, so
// it may come and go; a connection that finds no target is reset.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	_, port, err := net.SplitHostPort(target)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		tb.Fatalf("testenv: proxy target %q: want host:port", target)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testenv: proxy: %v", err)
	}
	p := &Proxy{
		tb: tb, target: target, listener: listener, changed: make(chan struct{}),
		deaf: make(chan struct{}), links: map[*link]struct{}{}, probes: map[string]chan struct{}{},
	}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr is the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the URL of with the proxy in place of its host and port.
func (p *Proxy) URL(of string) string {
	p.tb.Helper()
	u, err := url.Parse(of)
	if err != nil || u.Host == "" {
		p.tb.Fatal("testenv: proxy: not a URL with a host") // without the URL: it may hold a password
	}
	u.Host = p.Addr()
	return u.String()
}

// DelayRequests holds back each piece of a request for d; 0 ends that for what arrives later. Order is
// kept and throughput is not limited.
func (p *Proxy) DelayRequests(d time.Duration) { p.change(func(r *rules) { r.delay[requests] = d }) }

// DelayReplies is DelayRequests for what the target sends.
func (p *Proxy) DelayReplies(d time.Duration) { p.change(func(r *rules) { r.delay[replies] = d }) }

// DropRequests swallows what clients send, silently: connections stay, and even a client's close does
// not reach the target until it is switched off. What was swallowed is lost for good.
func (p *Proxy) DropRequests(on bool) { p.change(func(r *rules) { r.drop[requests] = on }) }

// DropReplies is DropRequests for what the target sends.
func (p *Proxy) DropReplies(on bool) { p.change(func(r *rules) { r.drop[replies] = on }) }

// Blackhole drops both directions. New connections are accepted and never answered, nor connected to
// the target, also after it is switched off.
func (p *Proxy) Blackhole(on bool) {
	p.settle()
	p.change(func(r *rules) { r.blackhole = on })
}

// Refuse resets new connections at once. Those that exist are left alone.
func (p *Proxy) Refuse(on bool) {
	p.settle()
	p.change(func(r *rules) { r.refuse = on })
}

// Cut resets all connections that exist, on both sides. What was under way is lost.
func (p *Proxy) Cut() {
	p.settle()
	p.cutAll()
}

func (p *Proxy) cutAll() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

func (p *Proxy) change(edit func(*rules)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edit(&p.rules)
	close(p.changed)
	p.changed = make(chan struct{})
}

// now returns the rules, and a channel that closes when they change.
func (p *Proxy) now() (rules, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules, p.changed
}

func (p *Proxy) accept() {
	defer close(p.deaf)
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.admit(conn)
	}
}

func (p *Proxy) admit(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if probe, ok := p.probes[conn.RemoteAddr().String()]; ok {
		close(probe)
		_ = conn.Close()
		return
	}
	if p.closed || p.rules.refuse {
		reset(conn)
		return
	}
	l := newLink(p, conn)
	p.links[l] = struct{}{}
	if p.rules.blackhole {
		p.running.Go(l.ignore)
		return
	}
	p.running.Go(l.relay)
}

// settle returns once every connection that clients have made so far is among p.links. A client's
// connect succeeds in the kernel, before we accept it; so we connect too, and wait for our turn.
func (p *Proxy) settle() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	conn, err := net.DialTimeout("tcp4", p.Addr(), time.Second) // under p.mu: admit must find the probe
	if err != nil {
		p.mu.Unlock()
		return
	}
	name := conn.LocalAddr().String()
	probe := make(chan struct{})
	p.probes[name] = probe
	p.mu.Unlock()

	select {
	case <-probe:
	case <-p.deaf:
	}
	_ = conn.Close()
	p.mu.Lock()
	delete(p.probes, name)
	p.mu.Unlock()
}

// close ends everything and waits for it.
func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.cutAll() // no link is added once p.closed is set
	p.running.Wait()
}

// reset closes a connection with RST where the system can.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
